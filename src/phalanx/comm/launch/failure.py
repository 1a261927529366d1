"""One rank's failure ends the whole job: said once, by the rank that failed first."""

import atexit
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType

from phalanx.comm.launch import roll_call
from phalanx.comm.launch.claim import first_to_fail
from phalanx.comm.launch.exit_status import exit_status, notice_exits
from phalanx.comm.launch.fault_tolerance import can_survive
from phalanx.comm.launch.job import Job, current_job, is_first_rank
from phalanx.comm.launch.process import die_with_parent
from phalanx.comm.launch.users_part import users_part
from phalanx.comm.launch.way_back import tell_launcher
from phalanx.errors import CheckpointError, LaunchError, PhalanxError, RankLostError


def end_run(error: BaseException, *, place: str = "") -> int:
    """Say what failed, and in which place, if no other rank has said so, and end all ranks.

    Returns the exit code where there is no job to end.
    """
    code = exit_code_of(error)
    if isinstance(error, PhalanxError) and not isinstance(error, RankLostError):
        tell_launcher("hopeless", "it would fail again")
    if isinstance(error, CheckpointError):
        tell_launcher("run", "")  # what it would be gone on from is what failed
    try:
        job = current_job()
    except LaunchError:  # N tasks of srun that know nothing of each other all come here
        if is_first_rank():
            _say(partial(describe, error, place=place))
        return code
    described = partial(describe, error, job, place=place)
    if not isinstance(error, RankLostError):
        _leave_job(described)
    _end_job(job, described, code)
    return code


def end_job(describe: Callable[[], str], code: int) -> None:
    """Say why, if no other rank has said anything, and end all ranks.

    For a thread: the main one may be in the middle of anything. Returns where there is no job to
    end.
    """
    flusher = threading.Thread(target=_flush, daemon=True)
    flusher.start()
    flusher.join(timeout=1)  # not forever: the main thread may be writing what nobody reads
    _end_job(current_job(), describe, code, flush=False)


#: Who is told why a job fails, rather than whoever reads this rank's standard error.
_listeners: list[Callable[[str], None]] = []


def tell_failures_to(listener: Callable[[str], None]) -> None:
    """From now on what this rank would print when it fails goes to a listener."""
    _listeners[:] = [listener]


_installed: set[str] = set()


def end_job_on_uncaught_errors() -> None:
    """From now on an uncaught exception on any rank ends the whole job, not just that rank.

    So does an exit with a status that is not 0, which is then the job's, and so does the end of
    whoever started this process. For the entry point of a program to choose; once is enough.
    """
    if "ending" in _installed:
        return
    _installed.add("ending")
    die_with_parent()

    def hook(
        _kind: type[BaseException], error: BaseException, _trace: TracebackType | None
    ) -> None:
        _end_script(error)

    sys.excepthook = hook
    notice_exits()
    atexit.register(_end_job_after_failing_exit, os.getpid())


#: Whether this rank is the only one left, where it may leave others behind.
_is_last: list[Callable[[], bool]] = []


def leave_job_on_uncaught_errors(*, is_last: Callable[[], bool]) -> None:
    """The same, but the other ranks may go on without the one that fails; see `survivors`.

    Only an error about lost ranks, which those that are left have in common, still ends the job,
    and so does the failure of a rank that is the last one.
    """
    end_job_on_uncaught_errors()
    _is_last[:] = [is_last]


def explain_uncaught_errors() -> None:
    """From now on an uncaught error of ours ends this process as it ends a command: with a line,
    and with its exit code. All other errors stay Python's to show, and so do all at a prompt.
    """
    if _installed:
        return
    _installed.add("explaining")
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        at_a_prompt = hasattr(sys, "ps1") or sys.flags.interactive
        if at_a_prompt or not isinstance(error, PhalanxError):
            before(kind, error, trace)
            return
        raise SystemExit(_end_script(error))  # which the interpreter then ends with

    sys.excepthook = hook


def _end_script(error: BaseException) -> int:
    """As `end_run`, for an error that nothing in a user's script has caught."""
    return end_run(error, place=_place_in_script(error))


def _place_in_script(error: BaseException) -> str:
    """The last line of the user's own that was on the way to an error, as `file.py, line 3`."""
    package = str(Path(__file__).parents[2])
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if not file.startswith((package, sys.prefix, "<")):
            place = f"{Path(file).name}, line {line}"
    return place


def _end_job_after_failing_exit(rank_process: int) -> None:
    """The others do not know of it, and MPI's own end would wait for theirs."""
    status, job = exit_status(), current_job()
    is_rank = os.getpid() == rank_process and not _mpi_is_over()  # a fork's exit is not the rank's
    if status != 0 and is_rank and job is not None and job.size > 1:
        said = f"rank {job.rank} exited with code {status}"
        _leave_job(lambda: said)
        _end_job(job, lambda: f"{said}; the job has been stopped", status)


def end_ranks_together() -> None:
    """Collective. End MPI on all ranks: what one exits with from here on ends no other.

    Where ranks may be lost it ends none anyway, and MPI's end would wait for those who are.
    """
    mpi = sys.modules.get("mpi4py.MPI")
    if not can_survive() and mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()


def _mpi_is_over() -> bool:
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and bool(mpi.Is_finalized())


def _end_job(
    job: Job | None, describe: Callable[[], str], code: int, *, flush: bool = True
) -> None:
    """Say why, if no other rank has, and end every rank: that above all, whatever else fails."""
    try:
        if first_to_fail(job):
            _say(describe)
        else:
            time.sleep(3)  # the first one is ending the job; this rank has nothing to add
    finally:
        if flush:
            _flush()
        _abort(code)


def _leave_job(describe: Callable[[], str]) -> None:
    """Say why, and end this process alone, if the others may go on without it.

    By a signal, since mpiexec tells them of nothing else: they would wait for one that exits.
    """
    if _is_last and not _is_last[0]():
        _say(describe)
        _flush()
        os.kill(os.getpid(), signal.SIGKILL)


def _say(describe: Callable[[], str]) -> None:
    """Print what somebody has to say, or as much of it as can be said: files may have run out, an
    error's own text may fail, and nobody may listen."""
    try:
        said = describe()
    except Exception as error:
        said = f"an error that cannot be described ({type(error).__name__})"
    with suppress(Exception):
        for tell in _listeners:
            tell(said)
            return
        print(said, file=sys.stderr, flush=True)


def exit_code_of(error: BaseException) -> int:
    """What a command that ended with this error should exit with."""
    if isinstance(error, PhalanxError):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return 130
    return 1


def describe(error: BaseException, job: Job | None = None, *, place: str = "") -> str:
    """The error as a person should read it; a traceback only where the cause is in some code."""
    where = f"rank {job.rank} of {job.size}: " if job and job.size > 1 else ""
    if isinstance(error, PhalanxError):
        return f"{where}{type(error).__name__}: {error}" + (f" ({place})" if place else "")
    if isinstance(error, KeyboardInterrupt):
        return f"{where}interrupted" + (f": {error}" if str(error) else "")
    if isinstance(error, SystemExit):
        place = place or _place_in_script(error) or "some code"
        return f"{where}{place}, has ended this process by an exit before the command was done"
    trace = _without_command_line(users_part(error))
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


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or on a full disk
            stream.flush()


def _abort(code: int) -> None:
    """End every rank, if MPI has been started in this process."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        roll_call.fail(code)
        mpi.COMM_WORLD.Abort(code)
