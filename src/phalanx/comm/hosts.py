"""How the ranks of a job lie on hosts: those beside this one, and its peers on the other hosts."""

from dataclasses import dataclass

from phalanx.comm.base import Communicator


@dataclass(frozen=True)
class Hosts:
    """A job's ranks in host order, and this rank's place in it."""

    #: All ranks, those of one host after each other.
    everyone: Communicator
    #: The ranks of this host.
    host: Communicator
    #: The first so many ranks of every host have a peer on each of the others.
    columns: int
    #: This rank and its peers, one a host, in the hosts' order; of size 1 for a rank without peers.
    peers: Communicator
    #: This rank's number in the order that they came in.
    rank: int

    @property
    def has_peers(self) -> bool:
        """Whether this rank is one of those that stand for a column."""
        return self.host.rank < self.columns

    def free(self) -> None:
        """Collective. Give the communicators back."""
        for comm in (self.peers, self.host, self.everyone):
            comm.free()


def arrange(comm: Communicator) -> Hosts:
    """Collective. Find out which ranks share a host, and order them by it."""
    host = comm.host()
    leader = min(host.allgather_objects(comm.rank))
    everyone = comm.split(0, key=leader * comm.size + host.rank)
    columns = min(everyone.allgather_objects(host.size))
    # Ranks beyond the smallest host's number have no peer everywhere, and so stay by themselves.
    alone = columns + everyone.rank
    color = host.rank if host.rank < columns else alone
    peers = everyone.split(color)
    return Hosts(everyone=everyone, host=host, columns=columns, peers=peers, rank=comm.rank)


def on_one_host(comm: Communicator) -> bool:
    """Collective. Whether all ranks are on the same host."""
    host = comm.host()
    alone = host.size == comm.size
    host.free()
    return alone
