"""PyDTNN's model_checkpoint: a file of its own with the best weights, every few epochs."""

import logging
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, final

from phalanx.errors import RunError
from phalanx.runs.pydtnn_weights import save_pydtnn_weights
from phalanx.state import State
from phalanx.train.companions.callbacks import Callback
from phalanx.train.companions.stopping import cost
from phalanx.train.epoch import Epoch

if TYPE_CHECKING:
    from phalanx.train.trainer import Trainer

log = logging.getLogger(__name__)


@final
class PyDTNNWeights(Callback):
    """Writes `model-NAME-epoch-N-DATE.npz` after an epoch that is the best so far.

    Epochs whose number cannot be divided by `every` are passed over; the file before it goes.
    """

    def __init__(
        self, name: str, *, every: int, watch: str, input_shape: tuple[int, ...], folder: Path
    ) -> None:
        self._name, self._every, self._watch = name, every, watch
        self._input_shape, self._folder = input_shape, folder
        self._best = math.inf
        self._last: Path | None = None

    def on_epoch_end(self, trainer: "Trainer", epoch: Epoch) -> None:
        now = cost(epoch, self._watch)
        if not now < self._best:
            return
        self._best = now
        if epoch.number % self._every:
            return
        trainer.sync()
        if trainer.comm.rank == 0:
            path = self._folder / (
                f"model-{self._name}-epoch-{epoch.number}-{time.strftime('%Y%m%d')}.npz"
            )
            try:
                save_pydtnn_weights(trainer.model, path, input_shape=self._input_shape)
            except (OSError, RunError) as error:  # no reason to lose the training
                log.warning("%s: not written: %s; the training goes on", path, error)
                return
            print(
                f"LRScheduler ModelCheckpoint: saving model weights and bias in {path}", flush=True
            )
            if self._last is not None and self._last != path:
                self._last.unlink(missing_ok=True)
            self._last = path

    def state(self) -> State:
        """How good the best epoch was, and where its weights are."""
        last = None if self._last is None else str(self._last)
        return State(values={"pydtnn weights": {"best": self._best, "last": last}})

    def load(self, state: State) -> None:
        saved = state.values.get("pydtnn weights")
        if saved is not None:
            self._best = saved["best"]
            self._last = None if saved["last"] is None else Path(saved["last"])
