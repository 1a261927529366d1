"""Run a command on the ranks it asks for: here, or on ranks that it launches itself."""

import sys
from collections.abc import Callable
from typing import Any

import typer

from phalanx.comm.device.visible import visible_gpus
from phalanx.comm.launch.failure import end_job_on_uncaught_errors
from phalanx.comm.launch.job import current_job, ranks_agree
from phalanx.comm.launch.mpiexec import launch_job


def rank_count(asked: int | None, device: str = "auto") -> int:
    """How many ranks the command will run on: those of this job, or those asked for; with `--device
    cuda`, if nobody asks, one a GPU."""
    job = current_job()
    if job is None:
        usual = max(1, visible_gpus()) if device == "cuda" else 1
        return usual if asked is None else asked
    ranks_agree(job, asked)
    return job.size


def going_on_with(run: str) -> list[str]:
    """What is added to the command line of a training to go on with it, or to begin it again there
    if it has come to no checkpoint."""
    return ["--resume", run, "--output", run]


def launched(
    ranks: int,
    *,
    bind: bool = True,
    survive: bool = False,
    restarts: int = 0,
    stall_after: float | None = None,
    left: Callable[[str], str] = lambda note: "",
    then: Callable[[int], None] = lambda number: None,
) -> None:
    """Return in a process that is a rank already; elsewhere start the ranks and exit with them.

    With `survive` they may go on without those that are lost; a job that fails is started again, to
    go on with its run, so many times; one that stands still for so many seconds before it has begun
    is ended. `left` says, of what rank 0 has noted, what there is of a job
    that did not come to its end; `then` is called with the number of a signal that has ended it.
    """
    if current_job() is not None:
        end_job_on_uncaught_errors()  # one that fails would leave the others waiting
        return
    if ranks == 1 and not restarts:
        return
    # The same command line again: under mpiexec it finds itself inside a job.
    argv = [sys.executable, "-m", "phalanx", *sys.argv[1:]]
    how: Any = {"bind": bind, "survive": survive, "stall_after": stall_after, "left": left}
    end = launch_job(ranks, argv, **how)
    for number in range(1, restarts + 1):
        if not end.may_start_again:
            break
        print(f"starting again ({number} of {restarts})", file=sys.stderr, flush=True)
        run = going_on_with(end.run) if end.run else []
        end = launch_job(ranks, [*argv, *run], **how)
    if end.code > 128:
        then(end.code - 128)
    raise typer.Exit(end.code)
