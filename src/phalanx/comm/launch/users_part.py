"""Of a traceback, the part that is about a user's own code: how we came there explains nothing."""

import sysconfig
from pathlib import Path
from types import TracebackType

#: Of this package.
_OURS = str(Path(__file__).parents[2])
#: Where Python's own modules and installed packages are.
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))


def users_part(error: BaseException) -> TracebackType | None:
    """The traceback from the first line of a user's own code on; all of it if there is none.

    A file that is no Python has no such line, and its SyntaxError says by itself where it is.
    """
    trace = error.__traceback__
    while trace is not None:
        if _is_users(trace.tb_frame.f_code.co_filename):
            return trace
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and _is_users(error.filename or ""):
        return None
    return error.__traceback__


def _is_users(file: str) -> bool:
    installed = file.startswith((_OURS, *_INSTALLED))
    return file.endswith(".py") and not installed
