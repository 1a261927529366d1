"""What a user wants done at the start and the end of a training, of its epochs and of its steps."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, final

from phalanx.errors import UsageError
from phalanx.state import State
from phalanx.strategies.base import Outcome
from phalanx.strategies.building_blocks.part_gradients import unchanged_weights
from phalanx.train.epoch import Epoch
from phalanx.train.methods.moving import check_unchanged
from phalanx.wording import a

if TYPE_CHECKING:
    from phalanx.train.trainer import Trainer


class Callback:
    """Derive from this, and write the methods that you want called, on every rank.

    Whatever all ranks have to do together (`trainer.evaluate`, `trainer.state`), all must do. Where
    `rank == 0` is asked first, only what concerns nobody else may follow. At the end of an epoch
    the model is this rank's own to look at; between two steps it is only for reading, and under
    `pipeline` and `tensor` it is in pieces then. What is to survive an interruption is the
    callback's `state`, under names of its own.
    """

    def on_train_begin(self, trainer: "Trainer") -> None:
        """`fit` begins."""

    def on_train_end(self, trainer: "Trainer") -> None:
        """`fit` ends, also in the middle of an epoch."""

    def on_epoch_begin(self, trainer: "Trainer") -> None:
        """Before the first step of an epoch; not where an epoch is gone on with."""

    def on_epoch_end(self, trainer: "Trainer", epoch: Epoch) -> None:
        """After an epoch and its validation."""

    def on_step_begin(self, trainer: "Trainer") -> None:
        """Before a step."""

    def on_step_end(self, trainer: "Trainer", outcome: Outcome) -> None:
        """After a step, with this rank's part of its outcome."""

    def state(self) -> State:
        """What to go on from."""
        return State()

    def load(self, state: State) -> None:
        """Go on from there, if the state says anything of it."""


@final
class Hooks:
    """All callbacks of one call of `fit`."""

    def __init__(
        self, callbacks: Sequence[Callback] = (), on_epoch: Callable[[Epoch], None] | None = None
    ) -> None:
        for one in callbacks:
            if not isinstance(one, Callback):
                raise UsageError(f"callbacks derive from phalanx.Callback, and this is {a(one)}")
        self.callbacks, self._on_epoch = tuple(callbacks), on_epoch
        self._before_steps = [one for one in callbacks if _has(one, "on_step_begin")]
        self._after_steps = [one for one in callbacks if _has(one, "on_step_end")]

    def begin(self, trainer: "Trainer") -> None:
        """`fit` begins."""
        for one in self.callbacks:
            one.on_train_begin(trainer)

    def end(self, trainer: "Trainer") -> None:
        """`fit` ends."""
        for one in self.callbacks:
            one.on_train_end(trainer)

    def before_epoch(self, trainer: "Trainer") -> None:
        """An epoch begins, or goes on."""
        if not trainer.position.inside_epoch:
            for one in self.callbacks:
                one.on_epoch_begin(trainer)

    def after_epoch(self, trainer: "Trainer", epoch: Epoch) -> None:
        """An epoch is done, and all that a state would have to know of."""
        if self.callbacks or self._on_epoch is not None:
            trainer.worker.lend()
            if self._on_epoch is not None:
                self._on_epoch(epoch)
            for one in self.callbacks:
                one.on_epoch_end(trainer, epoch)
            check_unchanged(trainer)

    def before_step(self, trainer: "Trainer") -> None:
        """A step begins."""
        if self._before_steps:
            with unchanged_weights(trainer.model, "on_step_begin"):
                for one in self._before_steps:
                    one.on_step_begin(trainer)

    def after_step(self, trainer: "Trainer", outcome: Outcome) -> None:
        """A step is done."""
        if self._after_steps:
            with unchanged_weights(trainer.model, "on_step_end"):
                for one in self._after_steps:
                    one.on_step_end(trainer, outcome)


def _has(callback: Callback, method: str) -> bool:
    return getattr(type(callback), method) is not getattr(Callback, method)
