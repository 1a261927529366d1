"""Keeps what is under way moving while this process computes.

MPI works on a non-blocking operation only while the process is inside some call to it. During a
backward pass that is hardly ever, so a thread calls it now and then.
"""

import sys
import threading
import time
from functools import cache
from typing import Any, final

from phalanx.comm.base import Communicator

#: Seconds between two calls: often enough to keep a network's buffers filled, and next to no time.
_INTERVAL = 0.0003


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
        if self._mpi is not None:
            threading.Thread(target=self._work, name="mpi-progress", daemon=True).start()

    def begin(self) -> None:
        self._wanted.set()

    def end(self) -> None:
        self._wanted.clear()

    def _work(self) -> None:
        while self._wanted.wait():
            if self._mpi.Is_finalized():
                return
            self._mpi.COMM_SELF.Iprobe()  # whatever is called, MPI works on everything
            time.sleep(_INTERVAL)


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
