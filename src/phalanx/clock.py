"""Where the time of a run goes, phase by phase.

Any layer may say `with phase("forward"):` around what it does. While no clock runs, that costs
next to nothing. A phase inside another is not counted twice: the outer one stops meanwhile.
"""

import time
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, final

_NOTHING: AbstractContextManager[None] = nullcontext()
_running: "Clock | None" = None


class Event(NamedTuple):
    """One stay in a phase, in seconds since the clock was started."""

    name: str
    start: float
    duration: float


@final
class Clock:
    """The seconds of one process, by phase; with `trace`, also when each phase was entered."""

    def __init__(self, *, trace: bool = False) -> None:
        self.seconds: dict[str, float] = {}
        self.events: list[Event] | None = [] if trace else None
        self._started = time.perf_counter()
        self._since = self._started
        self._open: list[tuple[str, float]] = []
        self._phases: dict[str, _Phase] = {}

    @property
    def elapsed(self) -> float:
        """The seconds since this clock was started, whatever they went into."""
        return time.perf_counter() - self._started

    def phase(self, name: str) -> "_Phase":
        """What counts for a phase while it is entered."""
        found = self._phases.get(name)
        if found is None:
            found = self._phases[name] = _Phase(self, name)
            self.seconds[name] = 0.0
        return found

    def enter(self, name: str) -> None:
        """Count for this phase from now on."""
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1][0]] += now - self._since
        self._open.append((name, now))
        self._since = now

    def leave(self) -> None:
        """Count again for the phase that the last one was entered from."""
        now = time.perf_counter()
        name, entered = self._open.pop()
        self.seconds[name] += now - self._since
        self._since = now
        if self.events is not None:
            self.events.append(Event(name, entered - self._started, now - entered))


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
    return _NOTHING if _running is None else _running.phase(name)


def start(*, trace: bool = False) -> Clock:
    """Count the phases of this process from now on, in a new clock."""
    global _running
    _running = Clock(trace=trace)
    return _running


def stop() -> None:
    """Count no more."""
    global _running
    _running = None
