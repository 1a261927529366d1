"""Where a user's script enters a job: all its ranks, and what becomes of them when one fails."""

from phalanx.comm import world as ranks_of_this_job
from phalanx.comm.base import Communicator
from phalanx.comm.launch.failure import end_job_on_uncaught_errors, explain_uncaught_errors


def world(*, ends_together: bool = True) -> Communicator:
    """Collective. All ranks of this job; a communicator of size 1 outside an MPI job.

    Unless told otherwise, an exception that nothing catches on one rank ends all of them, and so
    does an exit with a status that is not 0: the others would wait for it for good. An uncaught
    error of Phalanx's own ends the program with a line and its exit code, also on one rank.
    """
    comm = ranks_of_this_job()
    if ends_together:
        (end_job_on_uncaught_errors if comm.size > 1 else explain_uncaught_errors)()
    return comm
