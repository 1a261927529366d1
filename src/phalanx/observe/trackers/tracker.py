"""What all trackers have in common: what is written, by whom, and what happens if that fails."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from phalanx.train.companions.callbacks import Callback
from phalanx.train.epoch import Epoch
from phalanx.train.metrics import Metrics

if TYPE_CHECKING:
    from phalanx.train.trainer import Trainer

log = logging.getLogger(__name__)


class Tracker(Callback, ABC):
    """Writes every epoch, on rank 0 alone.

    A tracker that cannot be opened is an error. One that fails later is warned about, once, and the
    training goes on without it.
    """

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        #: What the training was told: hyper-parameters, or all settings of a command.
        self.params = dict(params or {})
        self._failed = False

    def on_train_begin(self, trainer: "Trainer") -> None:
        if trainer.comm.rank == 0:
            self.open(trainer)

    def on_epoch_end(self, trainer: "Trainer", epoch: Epoch) -> None:
        if trainer.comm.rank == 0:
            self._attempt(lambda: self.write(epoch.number, scalars_of(epoch)))

    def on_train_end(self, trainer: "Trainer") -> None:
        if trainer.comm.rank == 0:
            self._attempt(lambda: self.close(stopped=bool(trainer.stopped)))

    def conclude(self, test: Metrics, *, epoch: int, **tags: str) -> None:
        """Write what the trained model came to, and whatever else is to be told; on rank 0."""
        self._attempt(lambda: self.write_result(epoch, numbers_of(test, "test"), tags))

    @abstractmethod
    def open(self, trainer: "Trainer") -> None:
        """Begin, or go on where `trainer` stands."""

    @abstractmethod
    def write(self, epoch: int, scalars: Mapping[str, float]) -> None:
        """One more epoch."""

    @abstractmethod
    def close(self, *, stopped: bool) -> None:
        """`fit` has ended, before its time if it was stopped."""

    @abstractmethod
    def write_result(
        self, epoch: int, scalars: Mapping[str, float], tags: Mapping[str, str]
    ) -> None:
        """After `close`: the last word."""

    def _attempt(self, action: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            action()
        except Exception as error:
            self._failed = True
            name = type(self).__name__
            log.warning("%s: %s; the training goes on without it", name, error)


def scalars_of(epoch: Epoch) -> dict[str, float]:
    """The numbers of an epoch by name: the training's and the validation's beside each other."""
    scalars = numbers_of(epoch.train, "train")
    if epoch.validation is not None:
        scalars |= numbers_of(epoch.validation, "validation")
    return scalars | {
        "learning_rate": epoch.learning_rate,
        "samples_per_second": epoch.samples_per_second,
        "epoch_seconds": epoch.seconds,
    }


def numbers_of(metrics: Metrics, part: str) -> dict[str, float]:
    """Metrics by name, such as `loss/train`."""
    numbers = {"loss": metrics.loss, "accuracy": metrics.accuracy, **metrics.more}
    return {f"{name}/{part}": value for name, value in numbers.items() if value is not None}


def plain(params: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Those that say something, as values that every tracker knows."""
    return {
        name: value if isinstance(value, bool | int | float) else str(value)
        for name, value in params.items()
        if value is not None and value not in ("", (), {})
    }
