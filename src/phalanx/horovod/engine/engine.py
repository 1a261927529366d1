"""Brings operations of the same name together, whatever order and thread ranks ask for them in.

All talk is in *rounds*: one non-blocking allgather in which every rank says what it has newly asked
for. A rank enters a round exactly when it waits for something. The argument:

- Nothing is missed. An operation can start once all ranks have asked for it. Then all of them wait
  for something, so all enter rounds, and after the next one every rank knows. A rank that waits for
  nothing stays away: while it does, no operation can be complete, so no round is needed.
- Nobody spins. A rank whose round lacks others looks for them after naps that grow to a
  millisecond. If all ranks wait, but for different things, rounds complete without news: after such
  a round a rank that has nothing new stays out for a pause that grows to a millisecond, too.
- All agree. Every rank sees the same rounds and keeps the same table (`negotiation`), so all carry
  out the same operations in the same order. What they carry out depends on no caller any more, and
  so it ends on all ranks, and nothing that it holds up is needed for it.

Rounds are driven by whoever waits: a blocking call drives them in its own thread, which takes no
switch between threads. Only if nobody waits while operations are under way does a thread of the
engine drive them; when there are none it is asleep.

A rank that has joined is in every round, and takes part in what the others do with zeros. A
DistributedOptimizer exchanges gradients past this table (`channel`): only if it waits for long
does it say so here, which is how joined ranks learn of it.
"""

import threading
from collections import Counter
from typing import Any, final

from phalanx.comm.base import Communicator
from phalanx.comm.progress import takes_threads
from phalanx.errors import UsageError
from phalanx.horovod.engine.backoff import SPINS_OF_A_CALLER, SPINS_OF_A_THREAD, Backoff
from phalanx.horovod.engine.channel import Channel
from phalanx.horovod.engine.channels import Channels
from phalanx.horovod.engine.coordinator import Coordinator
from phalanx.horovod.engine.exceptions import SHUT_DOWN, HorovodInternalError
from phalanx.horovod.engine.executor import Executor
from phalanx.horovod.engine.losses import RanksLostInternalError, as_loss, ignoring_losses
from phalanx.horovod.engine.negotiation import Match
from phalanx.horovod.engine.requests import Description, Pending
from phalanx.horovod.engine.settings import Settings
from phalanx.horovod.engine.timeline import Timeline

_LONGEST_CALLER_NAP = 0.0002


@final
class Engine:
    """The operations of some ranks. It owns the communicator."""

    def __init__(
        self, comm: Communicator, *, members: list[int], settings: Settings, timeline: Timeline
    ) -> None:
        """Collective."""
        self.comm = comm
        self.members = members
        #: What DistributedOptimizers exchange through, by name.
        self.channels = Channels(comm)
        self._occurrences: Counter[str] = Counter()
        #: How often all ranks have joined.
        self.joins = 0
        self._coordinator = Coordinator(comm, settings, members=members, timeline=timeline)
        self._executor = Executor(
            comm,
            lambda: self._waiters > 0,
            members=members,
            fusion_threshold=settings.fusion_threshold,
            timeline=timeline,
        )
        self.timeline = timeline
        self._cycle = settings.cycle
        #: Guards what follows, and tells of changes in it.
        self._news = threading.Condition()
        self._mine: dict[str, Pending] = {}
        self._waiters = 0
        self._failure: HorovodInternalError | None = None
        #: Held by who drives: only one thread at a time enters rounds and carries out operations.
        self._driving = threading.Lock()
        self._threaded = takes_threads(comm)
        self._thread: threading.Thread | None = None
        self._closing = Pending(Description("shutdown", "shutdown"))
        self._closed = False

    def occurrence(self, name: str) -> int:
        """How often this was asked of the same name before."""
        with self._news:
            self._occurrences[name] += 1
            return self._occurrences[name] - 1

    def submit(self, pending: Pending, *, wake: bool = True) -> None:
        """Ask for an operation; `wake`: begin now, though nobody waits for it yet."""
        name = pending.description.name
        before = self._mine.get(name)
        if before is not None and before.description.refused:
            self._wait(before)  # the others' call that goes with it is not this one
        with self._news:
            if self._failure is not None:
                raise self.error(str(self._failure))
            if name in self._mine:
                raise UsageError(
                    f"{name} is under way already: synchronize it first, or give another name"
                )
            self._mine[name] = pending
            self._coordinator.announce(pending)
            if wake:
                self._wake()

    def wait(self, pending: Pending) -> Any:
        """The result of an operation, once it is there; raises if it failed."""
        self._wait(pending)
        if pending.error is not None:
            raise self.error(pending.error)
        return pending.result

    def error(self, message: str) -> HorovodInternalError:
        """What to raise about an operation that failed."""
        return (type(self._failure) if self._failure else HorovodInternalError)(message)

    def _wait(self, pending: Pending) -> None:
        if not pending.done:
            with self._news:
                self._waiters += 1
            try:
                self._drive_until(pending)
            finally:
                with self._news:
                    self._waiters -= 1
                    self._wake()

    def watch(self, channel: Channel) -> Pending:
        """Say that this rank waits for a step of a channel, until `unwatch`.

        What is returned is done once it waits in vain.
        """
        pending = Pending(Description(f"{channel.name}.step", "watch"))
        with self._news:
            if self._failure is not None:
                raise self.error(str(self._failure))
            self._mine[pending.description.name] = pending
            self._coordinator.watches[channel.name] = channel.sums.steps
            self._coordinator.has_news = True
            self._wake()
        return pending

    def unwatch(self, channel: Channel) -> None:
        """The step is over."""
        with self._news:
            self._mine.pop(f"{channel.name}.step", None)
            self._coordinator.watches.pop(channel.name, None)

    def discard(self, channel: str) -> None:
        """This rank has no use for a channel any more. May be called from anywhere at any time."""
        self._coordinator.to_discard.append(channel)

    def join(self) -> int:
        """Collective. Stand in with zeros until all ranks have joined; the last one to."""
        pending = Pending(Description("join", "join"))
        self.submit(pending, wake=False)
        return int(self.wait(pending))

    @property
    def has_joined_ranks(self) -> bool:
        """Whether some rank is known to have joined."""
        return bool(self._coordinator.table.joined)

    def nudge(self) -> None:
        """Drive a little, if nobody else does; for ranks whose MPI takes no threads."""
        if not self._threaded and self._driving.acquire(blocking=False):
            try:
                self._advance()
            finally:
                self._driving.release()

    def announce_close(self) -> None:
        """Fail what is under way on any rank; to be followed by `close`."""
        with self._news:
            self._failure = HorovodInternalError(SHUT_DOWN)
            self._mine[self._closing.description.name] = self._closing
            self._coordinator.announce(self._closing)
            self._wake()

    def close(self) -> None:
        """Collective. Wait until all ranks have come, and give everything back."""
        self.wait(self._closing)
        if isinstance(self._failure, RanksLostInternalError):
            raise self._failure
        self._end_thread()
        with ignoring_losses():  # all have come here, and who is done first may leave
            self.channels.free()
            self._coordinator.free()
            self.comm.free()

    def abandon(self) -> None:
        """Ranks are lost, and all communicators revoked: let go of all without the others' help."""
        self._fail_all(RanksLostInternalError("Horovod has started again without lost ranks"))
        self._end_thread()
        self.channels.abandon()

    def _end_thread(self) -> None:
        with self._news:
            self._closed = True
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _wake(self) -> None:
        """Have the thread look, if it should. Called with `_news` held."""
        if self._waiters or not self._mine or not self._threaded:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="horovod", daemon=True)
            self._thread.start()
        self._news.notify_all()

    def _work(self) -> None:
        backoff = Backoff(spins=SPINS_OF_A_THREAD, longest=self._cycle)
        while True:
            with self._news:
                while not self._closed and (self._waiters or not self._mine):
                    self._news.notify_all()  # whoever waits for this thread to let go
                    self._news.wait()
                    backoff.renew()
                if self._closed:
                    return
            with self._driving:
                moved = self._advance()
            if moved:
                backoff.renew()
            backoff.rest()

    def _drive_until(self, pending: Pending) -> None:
        backoff = Backoff(spins=SPINS_OF_A_CALLER, longest=_LONGEST_CALLER_NAP)
        while not pending.done:
            if not self._driving.acquire(blocking=False):
                with self._news:
                    if not pending.done:
                        self._news.wait(0.0005)
                continue
            try:
                moved = not pending.done and self._advance()
            finally:
                self._driving.release()
            if moved:
                backoff.renew()
            elif not pending.done:
                backoff.rest()

    def _advance(self) -> bool:
        """Take the next step, if one can be taken without waiting. Called while driving."""
        try:
            if "join" in self._mine:
                self.channels.move_on()
            matches = self._coordinator.advance(self._mine)
            if matches is None:
                return False
            self._settle(matches)
        except BaseException as error:
            lost, text = as_loss(error), f"the engine failed: {type(error).__name__}: {error}"
            self._fail_all(lost or HorovodInternalError(text))
            if lost is None:
                raise
        return True

    def _settle(self, matches: list[Match]) -> None:
        good = [match for match in matches if match.error is None]
        self._executor.run([match for match in good if match.any.verb != "open"], self._mine)
        coordinator = self._coordinator
        self.channels.follow(good, coordinator, self._mine)
        self.joins += coordinator.last_to_join is not None
        with self._news:
            for match in matches:
                self._finish(match.name, match.error)
            if coordinator.last_to_join is not None and "join" in self._mine:
                self._mine["join"].result = coordinator.last_to_join
                self._finish("join", None)
            if coordinator.shut_down is not None:
                self._failure = self._failure or HorovodInternalError(coordinator.shut_down)
                self._fail_mine(coordinator.shut_down)
            if coordinator.all_shut_down:
                self._finish("shutdown", None)
            if self._waiters > 1 or threading.current_thread() is self._thread:
                self._news.notify_all()

    def _finish(self, name: str, error: str | None) -> None:
        pending = self._mine.pop(name, None)
        if pending is not None:
            pending.error = error
            pending.done = True

    def _fail_mine(self, message: str) -> None:
        for name in list(self._mine):
            if name != "shutdown":
                self._finish(name, message)

    def _fail_all(self, error: HorovodInternalError) -> None:
        with self._news:
            self._failure = error
            self._fail_mine(str(error))
            self._finish("shutdown", None)
            self._news.notify_all()
