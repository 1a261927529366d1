"""What an epoch of a training came to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phalanx.errors import UsageError
from phalanx.settings.metrics import OF_TRAINING
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

    def value(self, watched: str) -> float:
        """The loss or a metric by its name, of the validation unless it begins with training-."""
        name = watched.removeprefix(OF_TRAINING)
        metrics = self.watched if name == watched else self.train
        found = {"loss": metrics.loss, "accuracy": metrics.accuracy, **metrics.more}.get(name)
        if found is None:
            raise UsageError(f"this training has no {name} to watch")
        return found

    def row(self, phases: Mapping[str, float]) -> dict[str, float | str]:
        """The epoch as a row of a history, with the seconds of each of these phases."""
        checked = self.validation
        row: dict[str, float | str] = {
            "epoch": self.number,
            "loss": self.train.loss,
            "accuracy": _cell(self.train.accuracy),
            "validation_loss": "" if checked is None else checked.loss,
            "validation_accuracy": "" if checked is None else _cell(checked.accuracy),
            "seconds": round(self.seconds, 6),
            "samples_per_second": round(self.samples_per_second, 3),
            "learning_rate": self.learning_rate,
            **self.train.more,
        }
        if checked is not None:
            row |= {f"validation_{name}": value for name, value in checked.more.items()}
        return row | _times(phases)


def network_rows(epoch: int, everyone: Sequence[Metrics]) -> list[dict[str, float | str]]:
    """A row for every rank that trained in an epoch, as each one's own samples came to it."""
    return [
        {
            "epoch": epoch,
            "rank": rank,
            "samples": one.count,
            "loss": one.loss,
            "accuracy": _cell(one.accuracy),
        }
        for rank, one in enumerate(everyone)
        if one.count
    ]


def phase_rows(epoch: int, everyone: Sequence[Mapping[str, float]]) -> list[dict[str, float | str]]:
    """A row for every rank: its seconds in each phase of an epoch."""
    return [
        {"epoch": epoch, "rank": rank, **_times(phases)} for rank, phases in enumerate(everyone)
    ]


def _times(phases: Mapping[str, float]) -> dict[str, float | str]:
    """The seconds of each phase, as tables have them."""
    return {f"{name.replace(' ', '_')}_seconds": round(one, 6) for name, one in phases.items()}


def _cell(value: float | None) -> float | str:
    """A number that there may be none of, as a table of a file has it."""
    return "" if value is None else value
