"""A rank that calls a function: `python -m phalanx.comm.calls.rank`, started by `call_on_ranks`."""

import linecache
import sys
from typing import Any

from phalanx.comm.calls.answers import Failure, failure_answer, failure_of, result_answer
from phalanx.comm.calls.pickled import Call, loads
from phalanx.comm.calls.pipes import RankPipes
from phalanx.comm.launch.failure import end_job_on_uncaught_errors, tell_failures_to
from phalanx.comm.launch.job import current_job
from phalanx.errors import UsageError


def main() -> None:
    """Read the call, make it, and send back what it returns, or why it does not."""
    end_job_on_uncaught_errors()
    pipes = RankPipes()
    job = current_job()
    rank = 0 if job is None else job.rank
    raised: list[BaseException] = []
    if pipes.shows:
        pipes.show()
        _show_at_once()

        def tell(said: str) -> None:
            failure = failure_of(raised[0]) if raised else Failure(said)
            pipes.answer(rank, failure_answer(failure))

        tell_failures_to(tell)
    try:
        pipes.answer(rank, result_answer(_called(pipes.read_call())))
    except BaseException as error:
        raised.append(error)
        raise  # which ends the job


def _called(packed: bytes) -> Any:
    call: Call = loads(packed)
    for name, lines in call.sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    try:
        return call.function(*call.args, **call.keywords)
    except SystemExit as error:
        raise UsageError(
            f"the function has ended its process by an exit ({error.code}): have it return, or "
            "raise an error that says why not"
        ) from error


def _show_at_once() -> None:
    """What is printed is read as UTF-8, and sent line by line, also where Python is told not to
    wait for their ends: two ranks' lines stay apart. One that ends where it began counts."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(  # type: ignore[union-attr]
            encoding="utf-8", errors="backslashreplace", line_buffering=True, write_through=False
        )


if __name__ == "__main__":
    main()
