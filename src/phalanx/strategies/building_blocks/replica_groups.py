"""Several copies of a split model: which ranks hold one together, and who holds the same part.

A strategy that splits a model over ranks may train some replicas of it in data parallelism. Ranks
then form a table, a row for each replica, a column for each part of the model. Ranks of one replica
are consecutive, and so as near to each other as ranks are: they talk the most.
"""

from dataclasses import dataclass

from phalanx.comm.base import Communicator
from phalanx.strategies.rules import check_replicas


@dataclass(frozen=True)
class Groups:
    """This rank's place among the replicas of a split model."""

    replica: int
    replicas: int
    #: The ranks that hold one copy of the model together; this rank's number among them is its
    #: part.
    members: Communicator
    #: This rank and those that hold the same part in the other replicas, in the replicas' order.
    peers: Communicator

    def free(self) -> None:
        """Collective. Give the communicators back."""
        self.members.free()
        self.peers.free()


def arrange_replicas(comm: Communicator, replicas: int) -> Groups:
    """Collective. Arrange all ranks in so many replicas."""
    check_replicas(replicas, comm.size)
    replica, part = divmod(comm.rank, comm.size // replicas)
    return Groups(
        replica=replica,
        replicas=replicas,
        members=comm.split(replica),
        peers=comm.split(part),
    )
