"""Where a training is: between which two steps of which epoch."""

from dataclasses import dataclass


@dataclass
class Position:
    """How far a training has come, the same on every rank. Nothing else counts steps."""

    #: Epochs that are over.
    epoch: int = 0
    #: Steps that are done, over all epochs.
    step: int = 0
    #: Of the epoch under way: its steps, its samples over all ranks, and what they have taken.
    step_in_epoch: int = 0
    samples: int = 0
    seconds: float = 0.0

    @property
    def inside_epoch(self) -> bool:
        """Whether an epoch has been begun and is not over."""
        return self.step_in_epoch > 0

    def __str__(self) -> str:
        inside = f"step {self.step_in_epoch} of " if self.inside_epoch else "the beginning of "
        return f"{inside}epoch {self.epoch + 1}"

    def after_step(self, samples: int) -> None:
        """One more step is done, on so many samples."""
        self.step += 1
        self.step_in_epoch += 1
        self.samples += samples

    def after_epoch(self) -> None:
        """The epoch under way is over."""
        self.epoch += 1
        self.step_in_epoch = self.samples = 0
        self.seconds = 0.0
