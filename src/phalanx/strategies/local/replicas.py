"""Who trains alone: every rank by itself, or the ranks of a host together."""

from dataclasses import dataclass

from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.strategies.local.rules import RANK


@dataclass(frozen=True)
class Replicas:
    """Who trains together with this rank, and who meets whom."""

    everyone: Communicator
    #: The ranks that have the same weights at any time.
    replica: Communicator
    #: The first ranks of all replicas, or the others.
    leaders: Communicator
    count: int

    def average(self, tensor: Tensor) -> None:
        """Collective. The mean of all replicas, in place: every replica counts once."""
        if self.replica.rank == 0:
            self.leaders.allreduce(tensor)
            tensor.div_(self.count)
        if self.replica.size > 1:
            self.replica.broadcast(tensor)

    def free(self) -> None:
        """Collective. Give the communicators back."""
        if self.leaders is not self.everyone:
            self.replica.free()
            self.leaders.free()


def arrange(comm: Communicator, alone: str) -> Replicas:
    """Collective. Every rank is a replica, or every host."""
    if alone == RANK or comm.size == 1:
        return Replicas(comm, SingleCommunicator(), comm, comm.size)
    host = comm.host()
    leaders = comm.split(int(host.rank > 0), comm.rank)
    found = Replicas(comm, host, leaders, comm.broadcast_object(leaders.size))
    if found.count == 1:
        found.free()
        raise UsageError(
            f"all {comm.size} ranks are on one host, which is one replica and meets nobody: take "
            "strategy 'central', or let every rank be a replica"
        )
    return found
