"""Signals that are read by a thread, from a pipe that Python's own handler writes them to.

A handler in Python would wait until the main thread comes back from where it is, and that may be
never: inside MPI it waits for other ranks.
"""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, final

from phalanx.comm.launch.asking import ASKING

#: What stays ignored where it was: `nohup` means it.
_IGNORABLE = (signal.SIGHUP,)


@final
class SignalReader(AbstractContextManager["SignalReader"]):
    """While inside, `receive` is called with the number of each signal that asks for an end, one
    after the other, in another thread. To be entered in the main thread."""

    def __init__(self, receive: Callable[[int], None]) -> None:
        self._receive = receive

    def __enter__(self) -> "SignalReader":
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._before = handle(ASKING, _leave_it_to_the_reader)
        return self

    def __exit__(self, *_error: object) -> None:
        handle_again(self._before)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._writing)  # which ends the thread
        self._thread.join()
        os.close(self._reading)

    def _read(self) -> None:
        while numbers := os.read(self._reading, 256):
            for number in numbers:
                if number in ASKING:
                    self._receive(number)


Handlers = dict[signal.Signals, Any]


def handle(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Handlers:
    """Have signals handled, but for those that are to stay ignored; what handled them before."""
    wanted = [
        number
        for number in numbers
        if number not in _IGNORABLE or signal.getsignal(number) != signal.SIG_IGN
    ]
    return {number: signal.signal(number, handler) for number in wanted}


def handle_again(before: Handlers) -> None:
    """Have signals handled as they were before."""
    for number, handler in before.items():
        signal.signal(number, handler)


def end_by(number: int) -> None:
    """End this process by a signal, from any thread: whoever started it learns what ended it."""
    _set(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def ignore(number: int) -> None:
    """From now on this process does not hear a signal; from any thread."""
    _set(number, signal.SIG_IGN)


def _set(number: int, disposition: signal.Handlers) -> None:
    # Python lets the main thread alone do so.
    ctypes.CDLL(None).signal(ctypes.c_int(number), ctypes.c_void_p(int(disposition)))


def _leave_it_to_the_reader(_number: int, _frame: FrameType | None) -> None:
    pass
