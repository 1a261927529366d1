"""With what status this process ends: Python tells nobody, not even what runs at the exit.

`sys.exit` raises an exception. If nothing catches it, the interpreter asks it for its code, and
that is how it can be noticed: no function has called who asks. A `raise SystemExit(3)` of a
program's own goes unnoticed.
"""

import builtins
import sys
import threading
from typing import Any, NoReturn

_status = 0


def exit_status() -> int:
    """The status that the interpreter ends this process with, once it does; before that, 0."""
    return _status


def notice_exits() -> None:
    """From now on `sys.exit`, and `exit` and `quit`, are noticed."""
    sys.exit = _noticed_exit
    for name in ("exit", "quit"):
        if hasattr(builtins, name):  # not with `python -S`
            setattr(builtins, name, _noticed_exit)


class _NoticedExit(SystemExit):
    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "code" and _asked_by_the_interpreter():
            global _status
            _status = _status_of(value)
        return value


def _noticed_exit(status: Any = None, /) -> NoReturn:
    if threading.current_thread() is not threading.main_thread():
        raise SystemExit(status)  # it ends a thread, which knows no other class of it
    raise _NoticedExit(status)


def _asked_by_the_interpreter() -> bool:
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
