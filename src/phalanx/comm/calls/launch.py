"""`phalanx.launch`: a function on ranks, from a notebook or a plain script."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from phalanx.comm.calls.answers import Failure
from phalanx.comm.calls.caller import CallEnd, call_on_ranks
from phalanx.comm.calls.environment import launcher_command, rank_environment
from phalanx.comm.calls.pickled import loads, pack_call
from phalanx.comm.launch.job import current_job
from phalanx.comm.launch.mpiexec import mpiexec_command
from phalanx.errors import LaunchError, RankFailedError, UsageError
from phalanx.wording import a, counted

Result = TypeVar("Result")
#: What a launcher, or a rank that has not come to the function, says when it refuses.
_REFUSED = re.compile(r"(?:UsageError|LaunchError): (.*)")
_OF_A_RANK = re.compile(r"rank (\d+) (?:was ended|exited)")


def launch(
    function: Callable[..., Result],
    args: Sequence[Any] = (),
    *,
    ranks: int,
    kwargs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[Result]:
    """Call `function(*args, **kwargs)` on new ranks; what it returned on each, in their order.

    For a notebook or a script that is no rank itself. The function may be defined there: it is sent
    by value, and so are its arguments; what ranks print is shown here. If it fails on a rank, all
    are ended, and `RankFailedError` has that rank's number and traceback. So they are by Ctrl-C, by
    a stopped cell, and after `timeout` seconds. `threads` is for each rank, by default its share of
    the cores; `environment` are more variables for them.
    """
    _check(function, args, ranks=ranks, threads=threads)
    mpiexec_command(ranks)  # refuses here what the launcher would
    end = call_on_ranks(
        pack_call(function, args, kwargs or {}),
        launcher_command(ranks, [] if threads is None else ["--threads", str(threads)]),
        ranks=ranks,
        environment=rank_environment() | _checked_variables(environment or {}),
        shows=True,
        timeout=timeout,
    )
    if end.is_late:
        raise RankFailedError(
            f"launch: {_called(function)} was not done after {timeout:g} s (timeout) on "
            f"{counted(ranks, 'rank')}, which have been ended"
        )
    if end.failure is not None:
        _raise_failure(*end.failure, ranks=ranks)
    if end.code or len(end.results) < ranks:
        _raise_end(end)
    return [loads(end.results[rank]) for rank in range(ranks)]


def _check(function: Any, args: Any, *, ranks: Any, threads: Any) -> None:
    job = current_job()
    if job is not None and job.size > 1:
        raise UsageError(
            f"launch starts ranks of its own, and this is one of {job.size} already: call "
            f"{_called(function)} itself, or start the script without mpirun or srun"
        )
    if not callable(function):
        raise UsageError(f"launch calls a function, and {function!r} is none")
    if not isinstance(args, tuple | list):
        raise UsageError(
            f"launch: args is a tuple of what {_called(function)} is given, as in ({args!r},), "
            f"not {a(args)}"
        )
    for name, number in (("ranks", ranks), ("threads", 1 if threads is None else threads)):
        if not isinstance(number, int) or number < 1:
            raise UsageError(f"launch: {name} must be a whole number, at least 1, not {number!r}")


def _checked_variables(variables: Mapping[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError(f"launch: environment has texts by name, not {name!r}: {value!r}")
    return dict(variables)


def _called(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _raise_failure(rank: int, failure: Failure, *, ranks: int) -> NoReturn:
    """As one exception, with what was raised on the rank as its cause."""
    message = f"rank {rank} of {ranks}: {failure.summary}"
    if failure.traceback:
        message += f"\n\n{failure.traceback}"
    error = RankFailedError(message, rank=rank, traceback=failure.traceback)
    raise error from failure.cause()


def _raise_end(end: CallEnd) -> NoReturn:
    """Of ranks that could not tell why they failed: what mpiexec, or the launcher, said of it."""
    lines = [line for line in end.said.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    refused = _REFUSED.search(last)
    if refused is not None:
        kind = LaunchError if end.code == LaunchError.exit_code else UsageError
        raise kind(refused.group(1))
    named = _OF_A_RANK.match(last)
    raise RankFailedError(
        f"the ranks ended with exit code {end.code}, and not with a result: {last}",
        rank=int(named.group(1)) if named else None,
    )
