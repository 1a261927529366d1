"""Who is told how a training goes on. The command line shows it; ranks other than 0 stay silent."""

from abc import ABC, abstractmethod

from phalanx.train.metrics import Meter, Metrics


class Progress(ABC):
    """Told about every step and epoch of a training."""

    @abstractmethod
    def start(self, epoch: int, epochs: int, *, steps: int) -> None: ...

    @abstractmethod
    def step(self, samples: int, meter: Meter) -> None:
        """A step is done: `samples` so far in this epoch, over all ranks."""

    @abstractmethod
    def finish(
        self, train: Metrics, validation: Metrics | None, samples_per_second: float
    ) -> None: ...


class Silent(Progress):
    """Shows nothing."""

    def start(self, epoch: int, epochs: int, *, steps: int) -> None: ...

    def step(self, samples: int, meter: Meter) -> None: ...

    def finish(
        self, train: Metrics, validation: Metrics | None, samples_per_second: float
    ) -> None: ...
