"""What to do about ranks that stand still: end the job, or only these ranks."""

import os
import signal
import sys

from phalanx.comm.launch.failure import end_job as end_all_ranks
from phalanx.comm.launch.job import current_job
from phalanx.comm.watch.report import Stalled, names_of


def end_job(stalled: Stalled) -> None:
    """Say who stands still, and end every rank, those that are stopped as well, with code 1."""
    end_all_ranks(lambda: f"{stalled}\nthe job has been stopped", 1)
    os._exit(1)  # outside of a job; the main thread cannot be told


def kill_rank(stalled: Stalled) -> None:
    """Say who stands still, and kill those ranks, so that MPI tells the others of it.

    Where nobody in particular stands still, or all ranks of the job do, the job ends.
    """
    job = current_job()
    if job is None or len(stalled.blamed) in (0, job.size):
        end_job(stalled)
    killed = names_of(one.rank for one in stalled.blamed)
    print(f"{stalled}\n{killed}: killed, for the others to go on", file=sys.stderr, flush=True)
    # This process last, if it is one of them: nobody would kill the others.
    for one in sorted(stalled.blamed, key=lambda one: one.process == os.getpid()):
        os.kill(one.process, signal.SIGKILL)
