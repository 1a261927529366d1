"""Where a training's time and bytes went: the phases of every rank, and what they sent."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from phalanx import clock
from phalanx.comm.base import Communicator
from phalanx.comm.counted import CountedCommunicator, Traffic
from phalanx.strategies.base import TextTable
from phalanx.train.profiling.trace import TraceFile

#: What a step goes through, in this order; phases that a strategy adds come behind.
_ORDER = (
    *("prepare", "load", "broadcast", "scatter inputs", "scatter labels", "forward", "backward"),
    *("gather", "exchange", "update", "wait", "step", "metrics", "evaluate"),
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
        self,
        comm: Communicator,
        *,
        trace: Path | None = None,
        settle: Callable[[], None] | None = None,
    ) -> None:
        """Collective. `settle` waits for the device that computes, if that is not the CPU."""
        self._trace = None if trace is None else TraceFile(comm, trace)
        self._traffic = Traffic()
        #: The phases that laps tell: those of any strategy, and what else the first lap had.
        self._lapped: tuple[str, ...] = ()
        self._comm = comm
        self.comm: Communicator = CountedCommunicator(comm, self._traffic)
        comm.barrier()  # the clocks of all ranks start together, whatever their hosts' clocks say
        add = None if self._trace is None else self._trace.add
        self._clock = clock.start(trace=add, settle=settle)

    def bytes_sent(self) -> int:
        """Collective. What all ranks have sent so far."""
        return sum(self._comm.allgather_objects(self._traffic.bytes))

    def lap(self) -> list[dict[str, float]] | None:
        """Collective. Each rank's seconds in every phase since the last lap, on rank 0; of the same
        phases each time."""
        laps = self._comm.gather_objects(self._clock.lap())
        if laps is None:
            return None
        if not self._lapped:
            self._lapped = tuple(dict.fromkeys((*_ORDER, *(name for one in laps for name in one))))
        return [{name: one.get(name, 0.0) for name in self._lapped} for one in laps]

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

    def finish_trace(self) -> None:
        """Collective. Put the phases of all ranks together, for ui.perfetto.dev."""
        if self._trace is not None:
            self._trace.finish()

    def abandon(self) -> None:
        """Write nothing more of a trace that others of these ranks are to begin anew."""
        if self._trace is not None:
            self._trace.abandon()
