"""Where a training's time and bytes went: the phases of every rank, and what they sent."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx import clock
from phalanx.comm.base import Communicator
from phalanx.comm.counted import CountedCommunicator, Traffic
from phalanx.strategies.base import TextTable

#: What a step goes through, in this order; phases that a strategy adds come behind.
_ORDER = (
    *("prepare", "load", "broadcast", "scatter", "forward", "backward", "gather", "exchange"),
    *("update", "wait", "step", "metrics", "evaluate"),
)
_REST = "other"


@dataclass(frozen=True)
class Phases:
    """The seconds of every rank in every phase, and from the first to the last."""

    seconds: dict[str, list[float]]
    elapsed: list[float]

    def table(self) -> TextTable:
        """A row a phase, a column a rank, and each phase's share in all."""
        whole = sum(self.elapsed)
        rows = [
            (name, *(f"{one:.3f}" for one in ranks), f"{sum(ranks) / whole:.1%}")
            for name, ranks in self.seconds.items()
        ]
        rows.append(("in all", *(f"{one:.3f}" for one in self.elapsed), "100.0%"))
        ranks = tuple(f"rank {rank}" for rank in range(len(self.elapsed)))
        return TextTable("Seconds by phase", ("phase", *ranks, "share"), tuple(rows))


class Profile:
    """One rank's clock and counter; a communicator to be used instead of the one given."""

    def __init__(
        self, comm: Communicator, *, trace: bool = False, settle: Callable[[], None] | None = None
    ) -> None:
        """Collective. `settle` waits for the device that computes, if that is not the CPU."""
        self._traffic = Traffic()
        self._comm = comm
        self.comm: Communicator = CountedCommunicator(comm, self._traffic)
        comm.barrier()  # the clocks of all ranks start together, whatever their hosts' clocks say
        self._clock = clock.start(trace=trace, settle=settle)

    def bytes_sent(self) -> int:
        """Collective. What all ranks have sent so far."""
        return sum(self._comm.allgather_objects(self._traffic.bytes))

    def lap(self) -> dict[str, float]:
        """This rank's seconds in every phase since the last lap; of the same phases each time."""
        passed = self._clock.lap()
        return {name: passed.get(name, 0.0) for name in _ORDER}

    def finish(self) -> Phases:
        """Collective. Stop the clocks, and put those of all ranks together."""
        clock.stop()
        elapsed = self._clock.elapsed
        mine = self._clock.seconds
        mine[_REST] = max(0.0, elapsed - sum(mine.values()))
        everyone = self._comm.allgather_objects((mine, elapsed))
        names = dict.fromkeys(name for name in _ORDER if any(name in one for one, _ in everyone))
        names |= dict.fromkeys(name for one, _ in everyone for name in one if name != _REST)
        names[_REST] = None
        seconds = {name: [one.get(name, 0.0) for one, _ in everyone] for name in names}
        return Phases(seconds, [time for _, time in everyone])

    def write_trace(self, path: Path) -> None:
        """Collective. Write every rank's phases for chrome://tracing or ui.perfetto.dev."""
        tracks = self._comm.gather_objects(self._clock.events or [])
        if tracks is None:
            return
        events: list[dict[str, Any]] = []
        for rank, track in enumerate(tracks):
            name = {"name": f"rank {rank}"}
            events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": rank, "args": name})
            for one in track:
                start, duration = one.start * 1e6, one.duration * 1e6
                event = {"ph": "X", "name": one.name, "pid": 0, "tid": rank}
                events.append(event | {"ts": round(start, 3), "dur": round(duration, 3)})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"traceEvents": events}))
