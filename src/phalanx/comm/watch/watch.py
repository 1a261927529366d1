"""The watch over the ranks of a host, seen from one of them."""

import faulthandler
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import final

from phalanx.comm.base import Communicator
from phalanx.comm.launch.way_back import tell_launcher
from phalanx.comm.watch import own_process
from phalanx.comm.watch.blame import Condition, Standing, to_blame
from phalanx.comm.watch.ending import end_job
from phalanx.comm.watch.processes import STACK_SIGNAL, born, stack_by_signal, standing
from phalanx.comm.watch.report import Stalled
from phalanx.comm.watch.slots import Slot, Slots
from phalanx.pulse import pulse

_SECOND = 10**9


@final
class Watch(AbstractContextManager["Watch"]):
    """Calls `on_stall` on one rank of a host when ranks there have stood still for so long.

    It watches from `start` to the end of a `with` block. `after` is in seconds; with None it does
    nothing. `on_stall` is called in a thread; the watch goes on if it returns.
    """

    def __init__(
        self,
        after: float | None,
        *,
        on_stall: Callable[[Stalled], None] = end_job,
        hint: str = "",
    ) -> None:
        self._after = after
        self._on_stall = on_stall
        self._hint = hint
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, comm: Communicator) -> None:
        """Collective. Watch from now on; ranks are called by their numbers here."""
        if self._after is None or self._thread is not None:
            return
        pulse.step = None
        looking = _Looking(comm, self._after)
        if comm.rank == 0:
            tell_launcher("met", "and watch each other")
        self._thread = threading.Thread(
            target=self._work, args=(looking,), name="phalanx-watch", daemon=True
        )
        self._thread.start()

    def _work(self, looking: "_Looking") -> None:
        try:
            while not self._ended.wait(looking.interval):
                if not looking.sees_a_stall():
                    continue
                stalled = looking.ask_all(self._hint)
                if stalled is not None:
                    self._on_stall(stalled)
                    looking.begin_again()
        except Exception:  # a training must not end because nobody watches it
            print("the watch over ranks that stand still has failed:", file=sys.stderr)
            traceback.print_exc()
        finally:
            looking.close()

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=5)  # not forever: it may be asking somebody


@final
class _Looking:
    """What the thread of a watch sees and tells."""

    def __init__(self, comm: Communicator, after: float) -> None:
        """Collective."""
        self._after = after
        self.interval = min(1.0, after / 10)
        #: Seconds without a look after which a rank's thread does not seem to run.
        self._silent = max(2.0, 5 * self.interval)
        self._rank, self._born = comm.rank, born(os.getpid())
        self._slots = Slots(comm)
        self._stack_file = _stack_file()
        self._beats = self._bytes = self._computed = -1
        self._moved = self._looked = self._awake = time.monotonic_ns()
        self._tell()
        # Nobody is judged before all have said something.
        hosts = comm.allgather_objects(socket.gethostname())
        here = {slot.rank for slot in self._slots.read()}
        self._elsewhere: dict[str, list[int]] = {}
        for rank, host in enumerate(hosts):
            if rank not in here:
                self._elsewhere.setdefault(host, []).append(rank)

    def sees_a_stall(self) -> bool:
        """Say how this rank is; whether any stands still, if that is this rank's to say."""
        now = time.monotonic_ns()
        if now - self._looked > max(self._after / 2, self._silent) * _SECOND:
            self._awake = now  # all of us may have been stopped, as Slurm does, and go on now
        self._looked = now
        self._tell()
        if self._slots.is_asked:
            self._slots.give_stack(own_process.stack_text())
        ranks = self._standings()
        return self._is_judge(ranks) and to_blame(ranks, after=self._after) is not None

    def ask_all(self, hint: str) -> Stalled | None:
        """How all ranks of the host are, with their stacks; None if they have gone on meanwhile."""
        self._slots.ask_for_stacks(time.monotonic_ns())
        self._slots.give_stack(own_process.stack_text())
        running = [index for index, one in enumerate(self._standings()) if one.runs]
        deadline = time.monotonic() + 2 + 2 * self.interval
        while time.monotonic() < deadline and None in map(self._slots.stack, running):
            time.sleep(self.interval / 10)
        self._looked = time.monotonic_ns()
        self._tell()
        ranks, slots = self._standings(), self._slots.read()
        # Some less: ranks that stand still for the same reason do so from about the same time on.
        blamed = to_blame(ranks, after=self._after - 2 * self.interval)
        if blamed is None:
            return None
        stacks = {}
        for index, (one, slot) in enumerate(zip(ranks, slots, strict=True)):
            text = self._slots.stack(index)
            if text is None and one.condition in (Condition.SILENT, Condition.BLOCKED):
                text = stack_by_signal(slot)
            if text is not None:
                stacks[one.rank] = text
        return Stalled(tuple(ranks), tuple(blamed), stacks, hint, self._elsewhere)

    def begin_again(self) -> None:
        """Judge by what happens from now on."""
        self._awake = self._looked = time.monotonic_ns()

    def close(self) -> None:
        """Be watched no longer."""
        self._tell(over=True)
        if self._stack_file >= 0 and _is_free():
            faulthandler.unregister(STACK_SIGNAL)
            os.close(self._stack_file)

    def _tell(self, *, over: bool = False) -> None:
        waits = own_process.waits_for_ranks()
        if self._has_moved(waits):
            self._moved, self._computed = self._looked, own_process.computed()
        self._slots.write(
            Slot(
                rank=self._rank,
                process=os.getpid(),
                born=self._born,
                looked=self._looked,
                moved=self._moved,
                step=-1 if pulse.step is None else pulse.step,
                waits=waits,
                computed=own_process.computed() - self._computed,
                stack_file=self._stack_file if _is_free() else -1,
                over=over,
            )
        )

    def _has_moved(self, waits: bool) -> bool:
        """Whether this rank has done anything since the last look."""
        before = self._beats, self._bytes
        self._beats = pulse.beats
        if pulse.step is None and not waits:  # a data set is loaded, perhaps by a user's function
            self._bytes = own_process.bytes_moved()
        return (self._beats, self._bytes) != before or own_process.waits_for_a_person()

    def _standings(self) -> list[Standing]:
        now, awake = time.monotonic_ns(), self._awake
        return [
            standing(slot, now=now, awake=awake, silent=self._silent) for slot in self._slots.read()
        ]

    def _is_judge(self, ranks: list[Standing]) -> bool:
        """Whether this rank is the first whose thread runs."""
        return self._rank == min((one.rank for one in ranks if one.runs), default=self._rank)


def _stack_file() -> int:
    """A file in memory that STACK_SIGNAL has this process write its stack to, even where Python
    does not run; -1 if a user's code has a handler of its own."""
    if not _is_free():
        return -1
    try:
        descriptor = os.memfd_create("stack", os.MFD_CLOEXEC)
    except (OSError, AttributeError):
        return -1
    faulthandler.register(STACK_SIGNAL, file=descriptor, all_threads=True)
    return descriptor


def _is_free() -> bool:
    """Whether no code of a user's handles the signal; faulthandler's handler is unknown to this."""
    return signal.getsignal(STACK_SIGNAL) == signal.SIG_DFL
