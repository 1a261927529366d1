"""Is this process a rank of an MPI job, and of which one? Answered from the environment alone.

Asking MPI itself would start it, which a launcher, `--help` or a one-rank run must not do.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.errors import LaunchError

#: (size, rank) variables of the launchers: Open MPI, MPICH and Intel MPI, MVAPICH.
_LAUNCHER_VARIABLES = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
)


@dataclass(frozen=True)
class Job:
    """This process's place in an MPI job, as its launcher announced it."""

    size: int
    rank: int


def current_job(environ: Mapping[str, str] = os.environ) -> Job | None:
    """The MPI job this process belongs to, or None outside of one."""
    for size, rank in _LAUNCHER_VARIABLES:
        if size in environ and rank in environ:
            return Job(size=int(environ[size]), rank=int(environ[rank]))
    # A batch script has SLURM_NTASKS too; only the tasks of an `srun` step have this one.
    tasks = int(environ.get("SLURM_STEP_NUM_TASKS", "1"))
    if "PMIX_RANK" in environ:
        return Job(size=tasks, rank=int(environ["PMIX_RANK"]))
    if tasks > 1:
        raise LaunchError(
            f"srun started {tasks} tasks without MPI, so each would train alone; "
            "start them with `srun --mpi=pmix …` (`srun --mpi=list` shows what this cluster has), "
            "or let phalanx start the ranks: `phalanx train --ranks N …` in the batch script"
        )
    return None


def is_first_rank() -> bool:
    """Whether this process speaks for the job: rank 0, or a process outside any job."""
    try:
        job = current_job()
    except LaunchError:
        return os.environ.get("SLURM_PROCID", "0") == "0"
    return job is None or job.rank == 0


def on_terminal() -> bool:
    """Whether a person watches standard output, also through mpiexec."""
    told = os.environ.get("PHALANX_TERMINAL")
    if told is not None:
        return told == "1"
    return sys.stdout.isatty() and "OMPI_COMM_WORLD_RANK" not in os.environ


def ranks_agree(job: Job, asked: int | None) -> None:
    """Refuse a `--ranks` that contradicts the job this process already is in."""
    if asked is not None and asked != job.size:
        raise LaunchError(
            f"--ranks {asked} inside an MPI job of {job.size} ranks: "
            "leave --ranks out, or give the launcher the same number"
        )
