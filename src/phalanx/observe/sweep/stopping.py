"""What ends a sweep before its last training: a signal, or the end of its time.

Either is passed on to the training under way, which then finishes its step and writes a checkpoint.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from types import FrameType
from typing import final

from phalanx.comm.launch.asking import ASKING, finishing
from phalanx.comm.launch.signal_reader import handle, handle_again

#: What tells a training that the sweep's time is over.
_OVER = signal.SIGTERM


@final
class Stopping(AbstractContextManager["Stopping"]):
    """While inside, signals that ask for an end are noted. To be entered in the main thread.

    The second one ends the training at once, a third one kills it.
    """

    def __init__(self, *, seconds: float | None, tell: Callable[[str], None]) -> None:
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._tell = tell
        self._signals: list[int] = []
        self._training: subprocess.Popen[bytes] | None = None
        #: Whether the time was over before the last training was done.
        self.is_out_of_time = False

    def __enter__(self) -> "Stopping":
        self._before = handle(ASKING, self._receive)
        return self

    def __exit__(self, *_error: object) -> None:
        handle_again(self._before)

    @property
    def number(self) -> int | None:
        """The signal that ends the sweep, if one does."""
        return self._signals[0] if self._signals else None

    @property
    def is_asked_for(self) -> bool:
        """Whether no more trainings are to start."""
        if not self._signals and self._deadline is not None and time.monotonic() > self._deadline:
            self.is_out_of_time = True
        return self.number is not None or self.is_out_of_time

    def wait(self, training: "subprocess.Popen[bytes]", *, look: Callable[[], None]) -> int:
        """Wait for a training's end, with a look at it now and then; its exit code."""
        told = False
        self._training = training
        try:
            while True:
                if self.is_asked_for and not told:
                    told = True
                    self._stop(training)
                try:
                    return training.wait(timeout=0.2)
                except subprocess.TimeoutExpired:
                    look()
        finally:
            self._training = None

    def _stop(self, training: "subprocess.Popen[bytes]") -> None:
        if self.number is None:
            self._tell("the time is over: finishing the step and writing a checkpoint")
        training.send_signal(_OVER if self.number is None else self.number)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)
        if len(self._signals) == 1:
            self._tell(finishing(number))  # which passes it on, see `wait`
        elif (training := self._training) is not None:
            if len(self._signals) == 2:
                training.send_signal(number)
                return
            with suppress(ProcessLookupError):
                os.killpg(training.pid, signal.SIGKILL)
