"""One rank's failure ends the whole job: said once, by the rank that failed first."""

import atexit
import os
import socket
import sys
import time
import traceback
from types import TracebackType

from phalanx.comm.launch.exit_status import exit_status, notice_exits
from phalanx.comm.launch.job import Job, current_job, is_first_rank
from phalanx.comm.launch.process import die_with_parent
from phalanx.errors import LaunchError, PhalanxError


def end_run(error: BaseException) -> int:
    """Say what failed, if no other rank has said so, and end all ranks.

    Returns the exit code where there is no job to end.
    """
    try:
        job = current_job()
    except LaunchError:  # N tasks of srun that know nothing of each other all come here
        if is_first_rank():
            print(describe(error), file=sys.stderr, flush=True)
        return exit_code_of(error)
    _end_job(job, describe(error, job), exit_code_of(error))
    return exit_code_of(error)


_installed: list[bool] = []


def end_job_on_uncaught_errors() -> None:
    """From now on an uncaught exception on any rank ends the whole job, not just that rank.

    So does an exit with a status that is not 0, which is then the job's, and so does the end of
    whoever started this process. For the entry point of a program to choose; once is enough.
    """
    if _installed:
        return
    _installed.append(True)
    die_with_parent()

    def hook(
        _kind: type[BaseException], error: BaseException, _trace: TracebackType | None
    ) -> None:
        end_run(error)

    sys.excepthook = hook
    notice_exits()
    atexit.register(_end_job_after_failing_exit, os.getpid())


def _end_job_after_failing_exit(rank_process: int) -> None:
    """The others do not know of it, and MPI's own end would wait for theirs."""
    status, job = exit_status(), current_job()
    is_rank = os.getpid() == rank_process  # a fork's exit is not the rank's
    if status != 0 and is_rank and job is not None and job.size > 1:
        said = f"rank {job.rank} exited with code {status}; the job has been stopped"
        _end_job(job, said, status)


def _end_job(job: Job | None, said: str, code: int) -> None:
    """Say why, if no other rank has, and end every rank."""
    if _first_to_fail(job):
        print(said, file=sys.stderr, flush=True)
    else:
        time.sleep(3)  # the first one is ending the job; this rank has nothing to add
    _abort(code)


def exit_code_of(error: BaseException) -> int:
    """What a command that ended with this error should exit with."""
    if isinstance(error, PhalanxError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return 130
    return 1


def describe(error: BaseException, job: Job | None = None) -> str:
    """The error as a person should read it; a traceback only where the cause is in some code."""
    where = f"rank {job.rank} of {job.size}: " if job and job.size > 1 else ""
    if isinstance(error, PhalanxError):
        return f"{where}{type(error).__name__}: {error}"
    if isinstance(error, KeyboardInterrupt):
        return f"{where}interrupted"
    trace = _without_command_line(error.__traceback__)
    return where + "".join(traceback.format_exception(type(error), error, trace)).rstrip()


def _without_command_line(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from where the work began: how a command was parsed explains no failure."""
    start = trace
    while start is not None:
        module = str(start.tb_frame.f_globals.get("__name__"))
        if not module.startswith(("typer", "click", "phalanx.cli", "phalanx.__main__", "__main__")):
            return start
        start = start.tb_next
    return trace


_claim: socket.socket | None = None


def _first_to_fail(job: Job | None) -> bool:
    """Whether no other rank on this host has failed before.

    Ranks often fail together, for the same reason. The name of an abstract socket is a lock that
    needs no file, and that the kernel gives back when the job is gone.
    """
    global _claim
    if job is None or job.size == 1:
        return True
    name = os.environ.get("PMIX_NAMESPACE") or f"{os.getpgid(os.getppid())}"
    _claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        _claim.bind(f"\0phalanx-failed-{os.getuid()}-{name}")
    except OSError:
        return False
    return True


def _abort(code: int) -> None:
    """End every rank, if MPI has been started in this process."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        sys.stdout.flush()
        sys.stderr.flush()
        mpi.COMM_WORLD.Abort(code)
