"""The communicator behind a checked one, for code that compares the ranks' calls by itself."""

from phalanx.comm.base import Communicator
from phalanx.comm.checked import CheckedCommunicator


def unchecked(comm: Communicator) -> Communicator:
    """The same ranks without the checks: there a non-blocking collective waits for nobody."""
    return comm._inner if isinstance(comm, CheckedCommunicator) else comm


def takes_threads(comm: Communicator) -> bool:
    """Whether several threads may use communicators at the same time."""
    if comm.size == 1:
        return True
    from mpi4py import MPI

    return MPI.Query_thread() == MPI.THREAD_MULTIPLE
