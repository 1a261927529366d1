"""TensorBoard: event files in a folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from phalanx.observe.trackers.tracker import Tracker, plain
from phalanx.settings.trackers import check_tracker

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from phalanx.train.trainer import Trainer

#: What its table of hyper-parameters shows beside them.
_RESULTS = ("loss/test", "accuracy/test")


@final
class TensorBoard(Tracker):
    """Writes scalars by epoch, hyper-parameters (`params`) and a final result into a folder.

    A training that goes on writes into the same folder: what had been written of epochs that are
    done again does not count any more.
    """

    def __init__(self, folder: Path | str, *, params: Mapping[str, Any] | None = None) -> None:
        check_tracker("tensorboard", asked_by="TensorBoard")
        super().__init__(params)
        self.folder = Path(folder)
        self._writer: SummaryWriter | None = None

    def open(self, trainer: "Trainer") -> None:
        # Readers forget what they have read of this step and of later ones.
        there = any(self.folder.glob("events.out.tfevents.*"))
        self._writer = self._new_writer(trainer.position.epoch + 1 if there else None)
        if self.params and not there:
            self._summarise(self._writer, *_hparams(plain(self.params))[:2])
        self._writer.flush()

    def write(self, epoch: int, scalars: Mapping[str, float]) -> None:
        assert self._writer is not None
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def close(self, *, stopped: bool) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def write_result(
        self, epoch: int, scalars: Mapping[str, float], tags: Mapping[str, str]
    ) -> None:
        self._writer = self._new_writer(None)
        self.write(epoch, scalars)
        for name, value in tags.items():
            self._writer.add_text(name, value, epoch)
        if self.params:
            self._summarise(self._writer, _hparams({})[2])
        self.close(stopped=False)

    def _new_writer(self, first: int | None) -> "SummaryWriter":
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(self.folder), purge_step=first)

    def _summarise(self, writer: "SummaryWriter", *summaries: Any) -> None:
        events: Any = writer.file_writer
        for one in summaries:
            events.add_summary(one)


def _hparams(params: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """What the table of hyper-parameters is made of: of all runs, of a start and of an end."""
    from torch.utils.tensorboard import summary

    hparams: Any = summary.hparams
    made: tuple[Any, Any, Any] = hparams(params, dict.fromkeys(_RESULTS, 0.0))
    return made
