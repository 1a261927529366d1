"""Says which ranks an operation waits for, when it has waited for too long.

A rank that never asks for anything is in no round, and a round that lacks a rank tells nothing. So
ranks that wait for long leave notes about what they wait for; who waits, too, answers; and the
first of them reports who was not heard of.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import final

from phalanx.comm.base import Communicator
from phalanx.comm.mailbox import Mailbox
from phalanx.horovod.engine.negotiation import name_ranks
from phalanx.horovod.engine.settings import Settings

LOGGER = logging.getLogger("phalanx.horovod")
#: Seconds between two looks, and seconds to wait for answers.
_INTERVAL = 0.05
_GRACE = 0.5


@final
class StallWatch:
    """Watches over what this rank waits for. All methods are for the thread that drives."""

    def __init__(self, comm: Communicator, settings: Settings, *, members: Sequence[int]) -> None:
        """Collective."""
        self._comm = comm
        self._members = members
        self._warning, self._shutdown = settings.stall_warning, settings.stall_shutdown
        self._notes = Mailbox(comm)
        self._next_look = 0.0
        self._asked: float | None = None
        self._reported: set[tuple[str, float]] = set()
        self._heard: dict[int, frozenset[str]] = {}

    def is_due(self) -> bool:
        """Whether it is time for another look."""
        return time.perf_counter() >= self._next_look

    def look(
        self, waiting: Mapping[str, float], brought: Callable[[str], set[int]], joined: set[int]
    ) -> None:
        """Report what waits for long; `waiting` has since when, for each name."""
        now = time.perf_counter()
        self._next_look = now + _INTERVAL
        self._answer(waiting)
        limits = [limit for limit in (self._warning, self._shutdown) if limit]
        late = {n: s for n, s in waiting.items() if limits and now - s > min(limits)}
        fresh = [name for name, since in late.items() if (name, since) not in self._reported]
        ending = any([self._shutdown and now - since > self._shutdown for since in late.values()])
        if not fresh and not ending:
            return
        if self._asked is None:
            self._asked = now
            self._notes.leave(("who waits?", tuple(waiting)))
        elif now - self._asked > min(_GRACE, *limits):
            self._report(late, fresh, brought, joined, ending=ending)
            self._reported.update((name, late[name]) for name in fresh)
            self._asked = None

    def moved(self) -> None:
        """A round has brought news: what was heard before it may not be true any more."""
        self._heard.clear()
        self._asked = None

    def free(self) -> None:
        """Collective."""
        self._notes.free()

    def _answer(self, waiting: Mapping[str, float]) -> None:
        asked = False
        for rank, (kind, names) in self._notes.take():
            self._heard[rank] = frozenset(names)
            asked = asked or kind == "who waits?"
        if asked and waiting:
            self._notes.leave(("this rank", tuple(waiting)))

    def _report(
        self,
        late: Mapping[str, float],
        fresh: Sequence[str],
        brought: Callable[[str], set[int]],
        joined: set[int],
        *,
        ending: bool,
    ) -> None:
        lines = []
        for name in late if ending else fresh:
            there = brought(name) | {self._comm.rank}
            there |= {rank for rank, names in self._heard.items() if name in names}
            absent = sorted(set(range(self._comm.size)) - there - joined)
            if min(there) == self._comm.rank and absent:
                seconds = time.perf_counter() - late[name]
                lines.append(
                    f"{name} waits since {seconds:.1f} s for {self._names(absent)}; "
                    f"{self._names(sorted(there))} asked for it"
                )
        if lines:
            LOGGER.warning("stalled: %s", "; ".join(lines))
        if ending and lines:
            LOGGER.error("stalled for more than %g s: the job ends", self._shutdown)
            self._comm.abort(1)

    def _names(self, ranks: Sequence[int]) -> str:
        return name_ranks([self._members[rank] for rank in ranks])
