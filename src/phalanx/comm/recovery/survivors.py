"""The ranks that are left of a job which has lost some: MPI's fault tolerance (ULFM).

Where it is on, an operation that a lost rank had a part in fails on some of the others; the rest
may wait for those in other operations. So whoever notices revokes every communicator that it has,
which has everybody notice, and all meet again in what is left.
"""

import atexit
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, final

from phalanx.comm import enter_world, world
from phalanx.comm.checked import unchecked
from phalanx.comm.launch.exit_status import exit_status, notice_exits
from phalanx.comm.launch.fault_tolerance import can_survive
from phalanx.comm.launch.job import take_place
from phalanx.errors import RankLostError

if TYPE_CHECKING:
    from phalanx.comm.base import Communicator
    from phalanx.comm.mpi import MPICommunicator


@contextmanager
def noticing_losses() -> Iterator[None]:
    """While inside, MPI's errors about ranks that are lost are a RankLostError."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not can_survive():
        yield
        return
    try:
        yield
    except mpi.Exception as error:
        # Which error it is says little: of several operations that one waits for, MPI tells only
        # that some have failed. Who is missing is found out in `shrink`.
        raise RankLostError(f"an operation with other ranks failed: {error}") from error


def agree(wish: bool) -> bool:
    """Collective over the ranks that are left. Whether all of them wish it, and nobody is lost.

    A rank that does not releases the others from whatever they wait in.
    """
    from phalanx.comm.mpi import revoke_all

    if not wish:
        revoke_all()
    _leave_without_finalizing()  # MPI's own end would wait for those who are lost
    return everyone().agree(wish)


def check_all_here() -> None:
    """Collective. Raise if any rank is lost.

    An operation that a rank dies in may seem to have succeeded on others, with any numbers in it.
    Before something is kept of what has come of operations, it is asked whether all were there.
    """
    if can_survive() and not everyone().agree(True):
        raise RankLostError("a rank is lost")


@final
@dataclass(frozen=True)
class Survivors:
    """What is left of a job."""

    comm: "Communicator"
    #: The numbers that the others had before.
    lost: list[int]


def shrink() -> Survivors:
    """Collective over the ranks that are left. They are `phalanx.comm.world()` from now on.

    All other communicators are of no use any more. This process will end without MPI's own end,
    which would wait for those who are lost.
    """
    from phalanx.comm.mpi import revoke_all

    revoke_all()
    left, lost = everyone().survivors()
    _leave_without_finalizing()
    take_place(left.rank, size=left.size)
    return Survivors(enter_world(left), lost)


def everyone() -> "MPICommunicator":
    """The ranks of this job, as MPI knows them."""
    from phalanx.comm.mpi import MPICommunicator

    comm = unchecked(world())
    assert isinstance(comm, MPICommunicator), "only jobs of MPI lose ranks"
    return comm


_leaving: list[int] = []


def _leave_without_finalizing() -> None:
    """Have this process end without MPI_Finalize."""
    if not _leaving:
        _leaving.append(os.getpid())
        notice_exits()
        # When threads end, just before: what is registered last is called first, and so can have
        # all others called. Some of them are registered after a loss, and bear no second call.
        threading._register_atexit(atexit.register, _leave)  # type: ignore[attr-defined]


def _leave() -> None:
    if os.getpid() not in _leaving:  # a fork's exit is not the rank's
        return
    atexit.unregister(_leave)
    atexit._run_exitfuncs()  # what was to be done after this, but for MPI's own
    leave_now()


def leave_now() -> NoReturn:
    """End this process with the status that it ends with, and without MPI_Finalize."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or on a full disk
            stream.flush()
    os._exit(exit_status())
