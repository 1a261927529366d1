"""What ranks print, shown by another process: in a notebook's cell, in a test, on a terminal."""

import codecs
import re
import sys
import time
from contextlib import suppress
from typing import Literal, final

#: Seconds between two states of a line that is drawn again and again: nobody reads faster.
_INTERVAL = 0.1
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
#: What moves the cursor in other ways than to the line's beginning, or takes no place.
_MOVES = re.compile(r"[\x1b\b]")


@final
class Relay:
    """Writes what it is fed to `sys.stdout` or `sys.stderr`, whatever these are at that moment.

    A line that is drawn again (`\\r`), as progress bars do, is written as often as it can be read;
    what was overwritten meanwhile is left out.
    """

    def __init__(self, stream: Literal["stdout", "stderr"]) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = ""
        self._line = RedrawnLine()
        self._next = 0.0

    def feed(self, printed: bytes) -> None:
        """Show it: lines at once, a line that is being redrawn when it is time to."""
        self._waiting += self._decoder.decode(printed)
        lines, end, rest = self._waiting.rpartition("\n")
        is_due = "\r" not in rest or time.monotonic() >= self._next
        self._waiting = "" if is_due else rest
        self._write(lines + end + (rest if is_due else ""))
        if is_due:
            self._next = time.monotonic() + _INTERVAL

    def finish(self) -> None:
        """Nothing more will come."""
        self._next = 0.0
        self.feed(b"")

    def _write(self, text: str) -> None:
        shown = "".join(self._line.draw(part) for part in _LINES.findall(text))
        stream = getattr(sys, self._stream)
        if not shown or stream is None:
            return
        with suppress(OSError, ValueError):  # nobody reads it; ranks must not wait for that
            try:
                stream.write(shown)
            except UnicodeEncodeError:
                known = stream.encoding or "ascii"
                stream.write(shown.encode(known, "replace").decode(known))
            stream.flush()


@final
class RedrawnLine:
    """The line that the cursor is in, as it is shown."""

    def __init__(self) -> None:
        self._text, self._column = "", 0

    def draw(self, text: str) -> str:
        """What to write so that the line looks as after this text, which may end it."""
        if _MOVES.search(text):  # it draws by other means, and is left to do so
            self._text, self._column = "", 0
            return text
        if "\r" not in text:
            self._overwrite(text)
            return text
        for index, part in enumerate(text.removesuffix("\n").split("\r")):
            self._column = 0 if index else self._column
            self._overwrite(part)
        shown = "\r" + self._text
        if text.endswith("\n"):
            self._overwrite("\n")
            return shown + "\n"
        return shown + ("\r" + self._text[: self._column]) * (self._column < len(self._text))

    def _overwrite(self, part: str) -> None:
        if part.endswith("\n"):
            self._text, self._column = "", 0
            return
        end = self._column + len(part)
        self._text = self._text[: self._column] + part + self._text[end:]
        self._column = end
