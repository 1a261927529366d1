"""Is this process a rank of an MPI job, and of which one? Answered from the environment alone.

Asking MPI itself would start it, which a launcher, `--help` or a one-rank run must not do.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.errors import LaunchError
from phalanx.wording import counted

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
            return Job(size=number_in(environ, size), rank=number_in(environ, rank))
    # A batch script has SLURM_NTASKS too; only the tasks of an `srun` step have this one.
    tasks = number_in(environ, "SLURM_STEP_NUM_TASKS", default=1)
    if "PMIX_RANK" in environ:
        return Job(size=tasks, rank=number_in(environ, "PMIX_RANK"))
    if tasks > 1:
        raise LaunchError(
            f"srun started {tasks} tasks without MPI, so each would train alone; "
            "start them with `srun --mpi=pmix …` (`srun --mpi=list` shows what this cluster has), "
            "or let phalanx start the ranks: `phalanx train --ranks N …` in the batch script"
        )
    return None


def take_place(rank: int, *, size: int) -> None:
    """Note that this process has another place in its job from now on: ranks have been lost."""
    for names in _LAUNCHER_VARIABLES:
        if all(name in os.environ for name in names):
            os.environ.update(zip(names, (str(size), str(rank)), strict=True))


def number_in(environ: Mapping[str, str], name: str, *, default: int = 0) -> int:
    """What a variable that launchers set says, or the default if it is not set."""
    value = environ.get(name, str(default))
    if not value.isdecimal():
        raise LaunchError(
            f"{name}={value} in the environment is no number: launchers set it for the ranks that "
            f"they start; unset it (`unset {name}`)"
        )
    return int(value)


def restarts(environ: Mapping[str, str] = os.environ) -> int:
    """How often Slurm has started this job again; 0 in its first turn, and outside of Slurm."""
    return number_in(environ, "SLURM_RESTART_COUNT")


def is_first_rank() -> bool:
    """Whether this process speaks for the job: rank 0, or a process outside any job."""
    try:
        job = current_job()
    except LaunchError:
        return os.environ.get("SLURM_PROCID", "0") == "0"
    return job is None or job.rank == 0


def ranks_agree(job: Job, asked: int | None) -> None:
    """Refuse a `--ranks` that contradicts the job this process already is in."""
    if asked is not None and asked != job.size:
        raise LaunchError(
            f"--ranks {asked} inside an MPI job of {counted(job.size, 'rank')}: "
            "leave --ranks out, or give the launcher the same number"
        )
