"""What an epoch of a training came to."""

from dataclasses import dataclass

from phalanx.train.metrics import Metrics


@dataclass(frozen=True)
class Epoch:
    """One epoch as it went: the training's metrics are those seen while it went on."""

    number: int
    train: Metrics
    validation: Metrics | None
    seconds: float
    learning_rate: float

    @property
    def samples_per_second(self) -> float:
        return self.train.count / self.seconds

    @property
    def watched(self) -> Metrics:
        """What says how good the weights are: the validation, if samples are held out for it."""
        return self.train if self.validation is None else self.validation
