"""What a training has come to over all its turns: it may have been interrupted and gone on with."""

import time
from dataclasses import asdict
from typing import Any, final

from phalanx.state import State
from phalanx.train.epoch import Epoch
from phalanx.train.metrics import Metrics


@final
class Turns:
    """Goes along with a training; a checkpoint has what there was of it until then."""

    def __init__(self) -> None:
        self.count = 1
        #: Samples trained on in epochs that are over, and the seconds that took.
        self.samples = 0
        self.training_seconds = 0.0
        #: The test before the first step, if there was one.
        self.test_before: dict[str, Any] | None = None
        #: The losses of the first epoch and of the last one.
        self.losses: tuple[float, float] | None = None
        self._seconds_before = 0.0
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """From the beginning, without the time between turns and what was gone back on."""
        return self._seconds_before + time.perf_counter() - self._started

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.training_seconds if self.training_seconds else 0.0

    def test(self, metrics: Metrics) -> None:
        """A test before the first step has come to this."""
        self.test_before = asdict(metrics)

    def begin(self) -> None:
        """From now on time counts."""
        self._started = time.perf_counter()

    def after_epoch(self, epoch: Epoch) -> None:
        """One more epoch is over."""
        self.samples += epoch.train.count
        self.training_seconds += epoch.seconds
        first = epoch.train.loss if self.losses is None else self.losses[0]
        self.losses = first, epoch.train.loss

    def facts(self) -> dict[str, Any]:
        """What a run's result says of it."""
        return {
            "test_before": self.test_before,
            "turns": self.count,
            "seconds": self.seconds,
            "samples_per_second": self.samples_per_second,
        }

    def state(self) -> State:
        """What there was so far."""
        values = {
            "count": self.count,
            "seconds": self.seconds,
            "samples": self.samples,
            "training seconds": self.training_seconds,
            "test before": self.test_before,
            "losses": self.losses,
        }
        return State(values={"turns": values})

    def load(self, state: State) -> None:
        """Go on from there: this is one more turn."""
        if (saved := state.values.get("turns")) is None:
            return
        self.count = saved["count"] + 1
        self.samples, self.training_seconds = saved["samples"], saved["training seconds"]
        self.test_before = saved["test before"]
        self.losses = None if saved.get("losses") is None else tuple(saved["losses"])
        self._seconds_before, self._started = saved["seconds"], time.perf_counter()
