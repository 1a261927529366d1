"""The launcher's terminal: what rank 0 draws on it, and how it is left."""

import contextlib
import re
import sys
import threading

from phalanx.comm.launch.way_back import Pipe

_HIDE, _SHOW = b"\x1b[?25l", b"\x1b[?25h"
#: What is no text: colours, moves of the cursor, its hiding.
_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """Copies what rank 0 draws to standard output as it comes, if that is a terminal."""

    def __init__(self) -> None:
        self.pipe = Pipe() if sys.stdout is not None and sys.stdout.isatty() else None
        self._lock = threading.Lock()
        self._in_line = self._hidden = False
        self._copier = threading.Thread(target=self._copy, daemon=True)

    def start(self) -> None:
        """Begin to draw."""
        if self.pipe is not None:
            self._copier.start()

    def end_line(self) -> None:
        """Something else is about to be written: it begins on a line of its own."""
        with self._lock:
            if self._in_line:
                self._write(b"\n")

    def finish(self) -> None:
        """No rank is there any more: leave the terminal as it was found."""
        if self.pipe is None:
            return
        self.pipe.finish()
        self._copier.join(timeout=1)  # a process that a rank has left behind may hold it open
        with self._lock:
            if self._hidden:
                self._write(_SHOW)
        self.end_line()

    def _copy(self) -> None:
        assert self.pipe is not None
        while drawn := self.pipe.read():
            with self._lock:
                self._write(drawn)
        self.pipe.close()

    def _write(self, drawn: bytes) -> None:
        if _HIDE in drawn or _SHOW in drawn:
            self._hidden = drawn.rfind(_HIDE) > drawn.rfind(_SHOW)
        if text := _ESCAPE.sub(b"", drawn):
            self._in_line = not text.endswith(b"\n")
        with contextlib.suppress(OSError):  # a terminal that is gone; the job hears of it itself
            sys.stdout.buffer.write(drawn)
            sys.stdout.buffer.flush()
