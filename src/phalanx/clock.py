"""Where the time of a run goes, phase by phase.

Any layer may say `with phase("forward"):` around what it does. While no clock runs, that costs
next to nothing. A phase inside another is not counted twice: the outer one stops meanwhile.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, final

from phalanx.pulse import pulse

_NOTHING: AbstractContextManager[None] = nullcontext()
_running: "Clock | None" = None


class Event(NamedTuple):
    """One stay in a phase, in seconds since the clock was started."""

    name: str
    start: float
    duration: float


#: What becomes of them.
Trace = Callable[[Event], None]


@final
class Clock:
    """The seconds of one process, by phase; `trace` is called with every stay in one.

    `settle` waits for a device that computes by itself, so that its time counts where it belongs.
    """

    def __init__(
        self, *, trace: Trace | None = None, settle: Callable[[], None] | None = None
    ) -> None:
        self.seconds: dict[str, float] = {}
        self._lapped: dict[str, float] = {}
        self._settle = settle
        self._trace = trace
        self._started = time.perf_counter()
        self._since = self._started
        self._open: list[tuple[str, float]] = []
        self._phases: dict[str, _Phase] = {}

    @property
    def elapsed(self) -> float:
        """The seconds since this clock was started, whatever they went into."""
        return time.perf_counter() - self._started

    def lap(self) -> dict[str, float]:
        """The seconds of each phase since the last lap."""
        passed = {name: total - self._lapped.get(name, 0.0) for name, total in self.seconds.items()}
        self._lapped = dict(self.seconds)
        return passed

    def phase(self, name: str) -> "_Phase":
        """What counts for a phase while it is entered."""
        found = self._phases.get(name)
        if found is None:
            found = self._phases[name] = _Phase(self, name)
            self.seconds[name] = 0.0
        return found

    def enter(self, name: str) -> None:
        """Count for this phase from now on."""
        now = self._now()
        if self._open:
            self.seconds[self._open[-1][0]] += now - self._since
        self._open.append((name, now))
        self._since = now

    def leave(self) -> None:
        """Count again for the phase that the last one was entered from."""
        now = self._now()
        name, entered = self._open.pop()
        self.seconds[name] += now - self._since
        self._since = now
        # What is done inside of the same phase is in the outer one's event.
        if self._trace is not None and all(name != outer for outer, _ in self._open):
            self._trace(Event(name, entered - self._started, now - entered))

    def _now(self) -> float:
        if self._settle is not None:
            self._settle()
        return time.perf_counter()


@final
class _Phase(AbstractContextManager[None]):
    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._name = name

    def __enter__(self) -> None:
        self._clock.enter(self._name)

    def __exit__(self, *_error: object) -> None:
        self._clock.leave()


def phase(name: str) -> AbstractContextManager[None]:
    """What counts for this phase while it is entered, if a clock runs in this process."""
    pulse.beats += 1
    return _NOTHING if _running is None else _running.phase(name)


def start(*, trace: Trace | None = None, settle: Callable[[], None] | None = None) -> Clock:
    """Count the phases of this process from now on, in a new clock."""
    global _running
    _running = Clock(trace=trace, settle=settle)
    return _running


def stop() -> None:
    """Count no more."""
    global _running
    _running = None
