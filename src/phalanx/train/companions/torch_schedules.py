"""A learning-rate scheduler of torch's, over the optimizer that a Trainer has."""

from typing import Literal, final

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from phalanx.errors import UsageError
from phalanx.state import State
from phalanx.train.companions.schedules import Schedule, plain_values
from phalanx.wording import a

#: After what a scheduler of torch's steps.
Every = Literal["epoch", "step"]


@final
class TorchSchedule:
    """Steps a user's scheduler after every epoch, or after every step."""

    def __init__(self, scheduler: LRScheduler, every: Every) -> None:
        self._scheduler, self._every = scheduler, every

    def after_step(self) -> None:
        """One step is done."""
        if self._every == "step":
            self._scheduler.step()

    def after_epoch(self, loss: float) -> None:
        """One epoch is done; a plateau is one of this loss."""
        if isinstance(self._scheduler, ReduceLROnPlateau):
            self._scheduler.step(loss)
        elif self._every == "epoch":
            self._scheduler.step()

    def state(self) -> State:
        """Where the scheduler is."""
        return State(values={"torch schedule": plain_values(self._scheduler.state_dict())})

    def load(self, state: State) -> None:
        """Go on from there; the learning rates are the optimizer's, and so in its own state."""
        saved = state.values.get("torch schedule")
        if saved is not None:
            # What cannot be in a file, functions of the user's own, is as it was made.
            self._scheduler.load_state_dict({**self._scheduler.state_dict(), **saved})


def as_schedule(
    schedule: object, every: Every, optimizer: Optimizer
) -> Schedule | TorchSchedule | None:
    """Phalanx's own schedule, or one of torch's over this optimizer."""
    if schedule is None or isinstance(schedule, Schedule):
        if every != "epoch":
            raise UsageError(
                "schedule_every='step' says when a scheduler of torch's steps: leave it out here"
            )
        return schedule
    if not isinstance(schedule, LRScheduler):
        raise UsageError(
            f"schedule= takes a scheduler of torch.optim.lr_scheduler, and this is {a(schedule)}"
        )
    if schedule.optimizer is not optimizer:
        raise UsageError(
            "the scheduler is over another optimizer than this Trainer's: make it of the one that "
            "the Trainer was given"
        )
    if every not in ("epoch", "step"):
        raise UsageError(f"schedule_every is 'epoch' or 'step', not {every!r}")
    if every == "step" and isinstance(schedule, ReduceLROnPlateau):
        raise UsageError("ReduceLROnPlateau looks at the loss of epochs: schedule_every='epoch'")
    return TorchSchedule(schedule, every)
