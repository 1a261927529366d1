"""Times the steps of a training as it really goes: `Trainer.fit`, and all that belongs to it."""

import math
import time
from itertools import chain
from statistics import fmean
from typing import Final, NamedTuple, final

from phalanx import clock
from phalanx.comm.base import Communicator
from phalanx.observe.advise.measurements import Pace, lower_quartile
from phalanx.train.companions.schedules import Schedule
from phalanx.train.metrics import Meter, Metrics
from phalanx.train.progress import Progress
from phalanx.train.session import Session
from phalanx.train.trainer import Trainer

#: The phases of a step in which ranks meet and add up.
MEETING: Final = ("wait", "exchange")
#: A block of steps takes so many seconds at least, if an epoch has as many steps.
_BLOCK = 0.1
_FEWEST, _MOST = 3, 30
#: From so many steps on, the first one of an epoch can be told from the others.
_SEVERAL = 3


class Shares(NamedTuple):
    """Where the time of a rank's steps goes."""

    #: Of a step.
    seconds: float
    #: As shares of that: for meeting the others and adding up, and for the update.
    meeting: float
    update: float


@final
class Stopwatch(Progress):
    """The seconds of every step, epoch by epoch."""

    def __init__(self) -> None:
        self.epochs: list[list[float]] = []
        self._last = 0.0

    def start(self, epoch: int, epochs: int, *, steps: int) -> None:
        self.epochs.append([])
        self._last = time.perf_counter()

    def step(self, samples: int, meter: Meter) -> None:
        now = time.perf_counter()
        self.epochs[-1].append(now - self._last)
        self._last = now

    def finish(
        self, train: Metrics, validation: Metrics | None, samples_per_second: float
    ) -> None: ...


@final
class TimedSteps:
    """A trainer's steps of so many samples: some at first to get warm, and then as many as fit into
    some seconds, as often as asked for."""

    def __init__(self, session: Session, trainer: Trainer, *, batch: int) -> None:
        """Collective."""
        self._session, self._trainer, self._batch = session, trainer, batch
        self._train = session.dataset.train
        count = session.training_count
        self._full = max(1, min(count // batch, session.settings.steps_per_epoch or count))
        self._rounds: list[tuple[float, ...]] = []
        self._overheads: list[float] = []
        #: Seconds of the last epochs, with all that belongs to them.
        self._spent = 0.0
        self.watch = Stopwatch()
        for _ in range(2):
            self._fit(min(self._full, _SEVERAL), epochs=1)
        self._step = trainer.comm.broadcast_object(self.watch.epochs[-1][-1])

    def agree(self, comm: Communicator) -> None:
        """Collective. Have ranks that train by themselves time the same steps from now on."""
        self._step = comm.broadcast_object(self._step)

    def shares(self, seconds: float) -> Shares:
        """Collective. Where the time of some more steps goes, which do not count."""
        phases = clock.start()
        self.run(seconds)
        clock.stop()
        del self._rounds[-1]
        meeting = sum(phases.seconds.get(name, 0.0) for name in MEETING)
        step, whole = fmean(chain.from_iterable(self.watch.epochs)), self._spent
        return Shares(step, meeting / whole, phases.seconds.get("update", 0.0) / whole)

    @property
    def pace(self) -> Pace:
        """What all runs came to."""
        overhead = lower_quartile(self._overheads) if self._overheads else 0.0
        return Pace(self._batch, tuple(self._rounds), max(0.0, overhead))

    def run(self, seconds: float) -> None:
        """Collective. One more round: blocks of steps for so many seconds, three at least."""
        wanted = max(math.ceil(_BLOCK / max(self._step, 1e-6)), _SEVERAL)
        steps = min(self._full, wanted if self._step < _BLOCK else 1)
        blocks = min(max(math.ceil(seconds / (steps * self._step)), _FEWEST), _MOST)
        self.watch = Stopwatch()
        _, *whole = self._fit(steps, epochs=1 + blocks)
        if steps < _SEVERAL:
            self._rounds.append(tuple(one / steps for one in whole))
            return
        times = [fmean(one[1:]) for one in self.watch.epochs[1:]]
        self._rounds.append(tuple(times))
        self._overheads += [epoch - steps * step for epoch, step in zip(whole, times, strict=True)]

    def _fit(self, steps: int, *, epochs: int) -> list[float]:
        settings, trainer = self._session.settings, self._trainer
        done = trainer.fit(
            self._train,
            epochs=epochs,
            batch_size=self._batch,
            steps_per_epoch=steps,
            schedule=Schedule(trainer.optimizer, settings, steps_per_epoch=steps),
            progress=self.watch,
        )
        self._spent = sum(epoch.seconds for epoch in done)
        return [epoch.seconds for epoch in done]
