"""Standard output and error as they are: perhaps in ASCII, closed, or on a full disk.

What is printed is not worth a training: output that cannot be written is said to be lost, once, and
the work goes on.
"""

import codecs
import os
import sys
from typing import Any, TextIO

#: What stands for a character that an encoding has not.
_PLAIN = str.maketrans(
    {"×": "x", "–": "-", "—": "-", "…": "...", "≈": "~", "•": "*", "·": "-", "‘": "'", "’": "'"}
    | dict.fromkeys("─━═╸╺", "-")
    | dict.fromkeys("│┃║", "|")
    | dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰┏┓┗┛┡┩╇┳┻╋┠┨", "+")
)
_HANDLER = "phalanx-plain"


def prepare_streams() -> None:
    """Make this process's output fit for whatever it goes to."""
    codecs.register_error(_HANDLER, _plain)
    for name, place in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started this; no file may get its number
            setattr(sys, name, _opened(place))
            continue
        stream.reconfigure(errors=_HANDLER)
    sys.stdout = Output(sys.stdout)


def finish_streams() -> int:
    """Write what is left; 1 if output was lost that somebody could have read, else 0."""
    output = sys.stdout
    if not isinstance(output, Output):
        return 0
    output.flush()
    return int(output.is_lost)


class Output:
    """A stream that loses what it cannot write, and says so once on standard error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_lost = False

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def write_bytes(self, content: bytes) -> None:
        """Write what others have encoded, at once."""
        try:
            self._stream.flush()
            self._stream.buffer.write(content)
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _lose(self, error: OSError) -> None:
        """From now on nothing is written, nor is what waits to be."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        if isinstance(error, BrokenPipeError):  # who has read has read enough, as `head` does
            return
        self.is_lost = True
        print(f"standard output cannot be written: {error.strerror}", file=sys.stderr, flush=True)


def _opened(place: int) -> TextIO:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != place:
        os.dup2(nowhere, place)
        os.close(nowhere)
    return os.fdopen(place, "w", closefd=False)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wrong = error.object[error.start : error.end].translate(_PLAIN)
    return "".join(one if one.isascii() else "?" for one in wrong), error.end
