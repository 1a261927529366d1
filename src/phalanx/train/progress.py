"""Who is told how a training goes on. The command line shows it; ranks other than 0 stay silent."""

from abc import ABC, abstractmethod
from typing import final

from phalanx.train.metrics import Meter, Metrics


class Progress(ABC):
    """Told about every step and epoch of a training."""

    @abstractmethod
    def start(self, epoch: int, epochs: int, *, steps: int) -> None: ...

    @abstractmethod
    def step(self, samples: int, meter: Meter) -> None:
        """A step is done: `samples` since the start, over all ranks."""

    @abstractmethod
    def finish(
        self, train: Metrics, validation: Metrics | None, samples_per_second: float
    ) -> None: ...

    def end(self) -> None:  # noqa: B027 (who shows every epoch has nothing left to show)
        """No epoch follows the last one that was finished, whatever had been planned."""


class Silent(Progress):
    """Shows nothing."""

    def start(self, epoch: int, epochs: int, *, steps: int) -> None: ...

    def step(self, samples: int, meter: Meter) -> None: ...

    def finish(
        self, train: Metrics, validation: Metrics | None, samples_per_second: float
    ) -> None: ...


@final
class Networks(Progress):
    """Keeps this rank's part of every epoch, beside what is shown of the whole."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._meter: Meter | None = None
        self.mine: list[Metrics] = []

    def start(self, epoch: int, epochs: int, *, steps: int) -> None:
        self._shown.start(epoch, epochs, steps=steps)

    def step(self, samples: int, meter: Meter) -> None:
        self._meter = meter
        self._shown.step(samples, meter)

    def finish(self, train: Metrics, validation: Metrics | None, samples_per_second: float) -> None:
        self.mine.append(train if self._meter is None else self._meter.mine)
        self._shown.finish(train, validation, samples_per_second)

    def end(self) -> None:
        self._shown.end()
