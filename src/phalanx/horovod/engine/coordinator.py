"""The rounds of an engine: when to enter one, what to say in it, and what to conclude from it."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, final

from phalanx.comm.base import Communicator
from phalanx.horovod.engine.negotiation import Match, Negotiations
from phalanx.horovod.engine.requests import Description, Pending
from phalanx.horovod.engine.rounds import Rounds
from phalanx.horovod.engine.settings import Settings
from phalanx.horovod.engine.stall import StallWatch
from phalanx.horovod.engine.timeline import Timeline

_FIRST_PAUSE = 0.00005
_LONGEST_PAUSE = 0.001
#: Seconds for which a name that is two operations at once may still turn out to be both.
_CONFLICT_TIMEOUT = 1.0


@final
class Coordinator:
    """What an engine says and hears. Only `announce` may be called by who does not drive."""

    def __init__(
        self,
        comm: Communicator,
        settings: Settings,
        *,
        members: Sequence[int],
        timeline: Timeline,
    ) -> None:
        """Collective."""
        self._comm = comm.split(0, comm.rank)
        self._rounds = Rounds(self._comm)
        self._members = members
        self._timeline = timeline
        self._stall = StallWatch(comm, settings, members=members)
        self.table = Negotiations(members)
        self._new: deque[Pending] = deque()
        #: Steps of channels that this rank waits for, and those that some rank does.
        self.watches: dict[str, int] = {}
        self.waited_for: dict[str, int] = {}
        #: Channels that this rank has to tell the others it needs no more. Not guarded by a lock,
        #: because garbage collection may add to it while one is held.
        self.to_discard: deque[str] = deque()
        #: What each rank has told so in the last round.
        self.unused_channels: list[list[str]] = []
        self.has_news = False
        self.last_to_join: int | None = None
        self.shut_down: str | None = None
        self.all_shut_down = False
        self._shut: set[int] = set()
        self._count = 0
        self._joining = self._shutting = False
        self._pause, self._not_before = 0.0, 0.0
        self._conflicts: dict[str, float] = {}

    def announce(self, pending: Pending) -> None:
        """Have the next round tell of an operation."""
        self._new.append(pending)
        self.has_news = True

    def advance(self, mine: Mapping[str, Pending]) -> list[Match] | None:
        """What all ranks now have asked for, if a round is over; never waits for one."""
        if not self._rounds.entered:
            if not self.has_news and (not mine or time.perf_counter() < self._not_before):
                self._look_for_stall(mine)
                return None
            self._rounds.enter(self._message())
        messages = self._rounds.test()
        if messages is None:
            self._look_for_stall(mine)
            return None
        return self._conclude(messages, mine)

    def free(self) -> None:
        """Collective."""
        self._stall.free()
        self._comm.free()

    def _message(self) -> tuple[Any, ...]:
        self.has_news = False  # first: what is announced meanwhile sets it again
        new = [self._new.popleft() for _ in range(len(self._new))]
        verbs = {pending.description.verb for pending in new}
        self._joining = self._joining or "join" in verbs
        self._shutting = self._shutting or "shutdown" in verbs
        told = [
            tuple(one.description)
            for one in new
            if one.description.verb not in ("join", "shutdown")
        ]
        now = time.perf_counter()
        complaints = [n for n, since in self._conflicts.items() if now - since > _CONFLICT_TIMEOUT]
        unused = [self.to_discard.popleft() for _ in range(len(self.to_discard))]
        return told, self._joining, self._shutting, dict(self.watches), complaints, unused

    def _conclude(
        self, messages: list[tuple[Any, ...]], mine: Mapping[str, Pending]
    ) -> list[Match]:
        self._count += 1
        self._timeline.cycle()
        watchers: dict[str, dict[int, int]] = {}
        complaints: dict[str, None] = {}
        self.unused_channels = [unused for *_, unused in messages]
        for rank, (told, joining, shutting, watches, complained, _) in enumerate(messages):
            descriptions = [Description(*fields) for fields in told]
            self.table.add(rank, descriptions)
            self._trace(rank, descriptions, mine)
            if joining:
                self.table.join(rank, self._count)
            if shutting:
                self._shut.add(rank)
            for name, steps in watches.items():
                watchers.setdefault(name, {})[rank] = steps
            complaints.update(dict.fromkeys(complained))
        matches = self.table.ready()
        for bare in complaints:
            matches += self.table.take_conflict(bare)
        if watchers:
            matches += self.table.take_left_behind(watchers)
        self.waited_for = {name: max(steps.values()) for name, steps in watchers.items()}
        for match in matches:
            self._timeline.negotiated(match.name)
        self._note_joined()
        self._note_shut_down()
        quiet = not any(told for told, *_ in messages) and not matches
        if not quiet:
            self._stall.moved()
        self._set_pause(quiet=quiet)
        return matches

    def _note_joined(self) -> None:
        self.last_to_join = self.table.last_to_join()
        if self.last_to_join is not None:
            self.table.joined.clear()
            self._joining = False

    def _note_shut_down(self) -> None:
        if self._shut:
            first = self._members[min(self._shut)]
            self.shut_down = f"rank {first} has called hvd.shutdown(), or its program ended"
            self.all_shut_down = len(self._shut) == len(self._members)

    def _set_pause(self, *, quiet: bool) -> None:
        """After a round without news, stay out of the next one for longer and longer."""
        self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE) if quiet else 0.0
        now = time.perf_counter()
        self._not_before = now + self._pause
        if quiet:
            known = self._conflicts
            self._conflicts = {bare: known.get(bare, now) for bare in self.table.conflicts()}
        else:
            self._conflicts = {}

    def _look_for_stall(self, mine: Mapping[str, Pending]) -> None:
        if not self._stall.is_due():
            return
        waiting = {
            name: pending.since
            for name, pending in list(mine.items())
            if pending.description.verb not in ("join", "shutdown")
        }
        self._stall.look(waiting, self.table.brought, set(self.table.joined))

    def _trace(
        self, rank: int, descriptions: list[Description], mine: Mapping[str, Pending]
    ) -> None:
        if not self._timeline.active:
            return
        for one in descriptions:
            own = mine.get(one.name)
            since = own.since if own is not None else None
            self._timeline.negotiate(one.name, one.verb, rank=self._members[rank], since=since)
