"""Small messages that a rank leaves for another one, which need not be there to take them.

Collective operations say nothing about the ranks that do not come to them. A rank that waits can
still leave a note, and those that wait, too, answer.
"""

from typing import Any, final

from phalanx.comm.base import Communicator
from phalanx.comm.checked import unchecked


@final
class Mailbox:
    """Mailbox between the ranks of a communicator, apart from its other messages."""

    def __init__(self, comm: Communicator) -> None:
        """Collective."""
        self._comm = unchecked(comm).split(0, comm.rank)
        # mpi4py's own object: the verbs of a communicator know beforehand what is to come.
        self._mpi: Any = getattr(self._comm, "_mpi", None)
        self._left: list[Any] = []

    def leave(self, value: object) -> None:
        """Leave a note for every other rank; returns at once."""
        self._left = [request for request in self._left if not request.Test()]
        for rank in range(self._comm.size):
            if rank != self._comm.rank:
                self._left.append(self._mpi.isend(value, rank))

    def take(self) -> list[tuple[int, Any]]:
        """The notes that have come, each after the rank that left it."""
        taken: list[tuple[int, Any]] = []
        while self._mpi is not None:
            message = self._mpi.improbe()
            if message is None:
                break
            taken.append(_receive(message))
        return taken

    def free(self) -> None:
        """Collective. Throw away what nobody has taken, and give the communicator back."""
        if self._mpi is not None:
            self._mpi.Barrier()
            self.take()
            for request in self._left:
                request.Wait()
        self._comm.free()


def _receive(message: Any) -> tuple[int, Any]:
    from mpi4py import MPI

    status = MPI.Status()
    value = message.recv(status=status)
    return status.Get_source(), value
