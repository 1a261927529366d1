"""Who is in a communicator, mpi4py's or one of Phalanx: told from here, without asking the others.

MPI compares groups of processes within a process, so ranks may give communicators that differ.
"""

import sys
from typing import Any

from phalanx.comm.base import Communicator
from phalanx.comm.wrapped import WrappedCommunicator
from phalanx.errors import UsageError


def is_communicator(value: object) -> bool:
    """Whether this is a communicator; asking does not start MPI."""
    mpi = sys.modules.get("mpi4py.MPI")
    return isinstance(value, Communicator) or (mpi is not None and isinstance(value, mpi.Comm))


def ranks_within(comm: object, everyone: Communicator) -> list[int]:
    """The ranks of a communicator, in its order, as ranks of one that has them all."""
    some, all_of_them = _of_mpi(comm), _of_mpi(everyone)
    if some is None or all_of_them is None:  # one process, which needs no MPI
        return [everyone.rank]
    from mpi4py import MPI

    if some == MPI.COMM_NULL:
        raise UsageError(
            "MPI.COMM_NULL has no ranks: leave it out on the ranks that are in no communicator"
        )
    one, other = some.Get_group(), all_of_them.Get_group()
    ranks: list[int] = MPI.Group.Translate_ranks(one, list(range(one.Get_size())), other)
    one.Free()
    other.Free()
    if MPI.UNDEFINED in ranks:
        raise UsageError(
            f"a communicator of {len(ranks)} ranks has {ranks.count(MPI.UNDEFINED)} that are not "
            f"among the {everyone.size} of this job: make it from the communicator that is used"
        )
    return ranks


def _of_mpi(comm: Any) -> Any:
    """mpi4py's communicator inside of a communicator; None for that of a single process."""
    while isinstance(comm, WrappedCommunicator):
        comm = comm._inner
    return getattr(comm, "_mpi", None) if isinstance(comm, Communicator) else comm
