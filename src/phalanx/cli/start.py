"""Run a command on the ranks it asks for: here, or on ranks that it launches itself."""

import sys

import typer

from phalanx.comm.launch.failure import end_job_on_uncaught_errors
from phalanx.comm.launch.job import current_job, ranks_agree
from phalanx.comm.launch.mpiexec import launch


def rank_count(asked: int | None) -> int:
    """How many ranks the command will run on: those of this job, or those asked for."""
    job = current_job()
    if job is None:
        return 1 if asked is None else asked
    ranks_agree(job, asked)
    return job.size


def launched(ranks: int, *, bind: bool = True) -> None:
    """Return in a process that is a rank already; elsewhere start the ranks and exit with them."""
    if current_job() is not None:
        end_job_on_uncaught_errors()  # one that fails would leave the others waiting
        return
    if ranks == 1:
        return
    # The same command line again: under mpiexec it finds itself inside a job.
    argv = [sys.executable, "-m", "phalanx", *sys.argv[1:]]
    raise typer.Exit(launch(ranks, argv, bind=bind))
