"""What a rank sends back: what the function returned, or why there is nothing."""

import pickle
import traceback
from contextlib import suppress
from typing import Any, NamedTuple

from phalanx.comm.calls.pickled import dumps, loads
from phalanx.comm.launch.users_part import users_part
from phalanx.errors import PhalanxError, UsageError
from phalanx.wording import a

#: What an answer begins with.
_RESULT, _FAILURE = b"r", b"f"


class Failure(NamedTuple):
    """Why a rank has nothing to return."""

    #: In a line, or a few.
    summary: str
    traceback: str = ""
    #: What was raised, as bytes, if it can be sent.
    error: bytes | None = None

    def cause(self) -> BaseException | None:
        """What was raised, if it can be made again here."""
        if self.error is None:
            return None
        with suppress(Exception):  # its class may want other arguments, or be of a rank alone
            made = loads(self.error)
            return made if isinstance(made, BaseException) else None
        return None


def failure_of(error: BaseException) -> Failure:
    """What there is to tell of an exception; its traceback from the first line of a user's own."""
    trace = users_part(error)
    if isinstance(error, PhalanxError):
        told = Failure(f"{type(error).__name__}: {error}")
    else:
        told = Failure("".join(traceback.format_exception_only(error)).strip())
    if trace is not error.__traceback__ or not isinstance(error, PhalanxError):
        lines = traceback.format_exception(type(error), error, trace)
        told = told._replace(traceback="".join(lines).rstrip())
    with suppress(Exception):
        return told._replace(error=dumps(error))
    return told


def result_answer(result: Any) -> bytes:
    """What is sent of a result; refused if it cannot be sent."""
    try:
        return _RESULT + dumps(result)
    except Exception as error:
        raise UsageError(
            f"what the function returned, {a(result)}, cannot be sent back "
            f"({error}): return tensors, numbers, or what else can be pickled"
        ) from error


def failure_answer(failure: Failure) -> bytes:
    """What is sent of a failure."""
    return _FAILURE + pickle.dumps(tuple(failure))


def read_answer(content: bytearray) -> Failure | memoryview:
    """A failure, or a result that is still to be unpacked by `loads`."""
    rest = memoryview(content)[1:]
    return Failure(*pickle.loads(rest)) if content[:1] == _FAILURE else rest
