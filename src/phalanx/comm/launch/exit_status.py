"""With what status this process ends: Python tells nobody, not even what runs at the exit.

A program ends itself by an exception, SystemExit, whether `sys.exit` raises it or the program does.
If nothing catches it, the interpreter asks it for its code, and that is how it can be noticed: no
function has called who asks. So the exception's attribute `code` is one that listens. It is of a
type of Python's own, which is closed to assignments, and whose dictionary is reached all the same.
"""

import ctypes
import gc
import sys
import threading
from typing import Any, NoReturn

_status = 0


def exit_status() -> int:
    """The status that the interpreter ends this process with, once it does; before that, 0."""
    return _status


def notice_exits() -> None:
    """From now on the end of this process by SystemExit is noticed. Once is enough."""
    members: dict[str, Any] = gc.get_referents(SystemExit.__dict__)[0]
    code = members["code"]
    if isinstance(code, property):
        return

    def noticed(error: SystemExit) -> Any:
        value = code.__get__(error)
        if _asked_by_the_interpreter():
            global _status
            _status = _status_of(value)
        return value

    members["code"] = property(noticed, code.__set__, code.__delete__)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(SystemExit))  # it remembers what it has found
    sys.exit = _exit


def _exit(status: Any = None, /) -> NoReturn:
    """As `sys.exit`, which until Python 3.12 leaves it to others to make an exception of it."""
    raise SystemExit(status)


def _asked_by_the_interpreter() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        sys._getframe(2)
    except ValueError:
        return True
    return False


def _status_of(code: Any) -> int:
    """As Python does it: nothing is a success, and whatever is no number is printed."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1
