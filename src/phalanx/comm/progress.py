"""Keeps what is under way moving while this process computes.

MPI works on a non-blocking operation only while the process is inside some call to it, and what
arrives may have to be added up before anything else can be sent. During a backward pass nobody does
either, so a thread does now and then.
"""

import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, final

from phalanx.comm.base import Communicator

#: Seconds between two calls: often enough to keep a network's buffers filled. Each takes some 50
#: microseconds from the thread that computes on the same core.
INTERVAL = 0.001
#: The same between ranks of one host, whose messages mostly need nobody's help.
SELDOM = 0.003
#: Seconds between two looks of a thread beside one that computes: each takes that one's core for
#: some 50 microseconds. The first ones come soon, since a large message begins with a short one and
#: its answer; from then on what the kernel has for the network lasts for milliseconds.
_FIRST_INTERVAL, _LAST_INTERVAL = 0.0002, 0.001
#: Seconds between two looks of somebody who waits and has nothing else to do.
_SHORT_INTERVAL = 0.00003
#: What the threads are called: whoever looks for threads that work leaves these out.
THREAD_NAME = "phalanx-exchange"


@cache
def progress() -> "Progress":
    """The one of this process."""
    return Progress()


@final
class Progress:
    """A thread that has MPI work from `begin` to `end`; where MPI takes no threads, nothing."""

    def __init__(self) -> None:
        self._mpi: Any = _threaded_mpi()
        self._wanted = threading.Event()
        self._interval = INTERVAL
        if self._mpi is not None:
            threading.Thread(target=self._work, name="mpi-progress", daemon=True).start()

    def begin(self, interval: float = INTERVAL) -> None:
        """From now on, once in so many seconds."""
        self._interval = interval
        self._wanted.set()

    def end(self) -> None:
        self._wanted.clear()

    def _work(self) -> None:
        while self._wanted.wait():
            if self._mpi.Is_finalized():
                return
            self._mpi.COMM_SELF.Iprobe()  # whatever is called, MPI works on everything
            time.sleep(self._interval)


def _threaded_mpi() -> Any:
    """MPI, if this process has started it and several threads may call it at a time."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    return mpi if mpi.Query_thread() == mpi.THREAD_MULTIPLE else None


def takes_threads(comm: Communicator) -> bool:
    """Whether several threads may use communicators at the same time."""
    if comm.size == 1:
        return True
    from mpi4py import MPI

    return MPI.Query_thread() == MPI.THREAD_MULTIPLE


@final
class Background:
    """Calls a function from `begin` on until it says that nothing is left to do for now."""

    def __init__(self, advance: Callable[[], bool], *, threaded: bool) -> None:
        """`advance` does what can be done without waiting. Where MPI takes no threads, it is
        called by `begin` and `finish` alone."""
        self._advance = advance
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._closed = self._waited_for = False
        self._error: BaseException | None = None
        if threaded:
            work = (weakref.ref(self), self._wanted)
            threading.Thread(target=_work, args=work, name=THREAD_NAME, daemon=True).start()
            weakref.finalize(self, self._wanted.set)
        self._threaded = threaded

    def begin(self) -> None:
        """There is something to do: what can be done at once is done here, if nobody is about it;
        the thread sees to the rest."""
        if self._lock.acquire(blocking=False):
            try:
                if self._try():
                    return
            finally:
                self._lock.release()
        if self._threaded:
            self._wanted.set()

    def finish(self) -> None:
        """Wait until nothing is left to do; raises what went wrong meanwhile."""
        self._wanted.clear()
        self._waited_for = True  # by somebody who looks more often than the thread would
        while not self._step():
            time.sleep(_SHORT_INTERVAL)
        self._waited_for = False
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._wanted.set()

    def _step(self) -> bool:
        with self._lock:
            return self._try()

    def _try(self) -> bool:
        """Whether nothing is left to do, or something went wrong."""
        if self._error is None:
            try:
                return self._advance()
            except BaseException as error:
                self._error = error
        return True

    def attend(self) -> None:
        """Do all that there is to do for now, and seldom look whether it can be done."""
        self._wanted.clear()  # before: what comes meanwhile is to be seen to as well
        interval = _FIRST_INTERVAL
        while not (self._closed or self._waited_for):
            time.sleep(interval)
            if self._step():
                return
            interval = min(2 * interval, _LAST_INTERVAL)

    @property
    def closed(self) -> bool:
        """Whether the thread is to end."""
        return self._closed


def _work(reference: "weakref.ref[Background]", wanted: threading.Event) -> None:
    while wanted.wait():
        background = reference()
        if background is None or background.closed:
            return
        background.attend()
        del background  # or it would be there as long as this thread
