"""A program on a pseudo-terminal of its own, as a person has it before them."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

from tests.commands import PATIENCE, environment

CTRL_C = b"\x03"
#: So much of a text is looked at: a bar that moves writes without an end.
_LAST = 20_000


def _as_at_a_terminal() -> None:
    # Whoever runs the tests in the background has them ignore it, and so all that they start.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """`phalanx ARGUMENTS` on a terminal; `text` is all that was written to it so far."""

    def __init__(self, *arguments: object, folder: Path, columns: int = 120) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        variables = environment() | {"TERM": "xterm"}
        del variables["COLUMNS"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "phalanx", *map(str, arguments)],
            cwd=folder,
            env=variables,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_as_at_a_terminal,  # noqa: PLW1509
        )
        os.close(theirs)
        self.text = ""

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def wait_for(self, pattern: str, *, seconds: float = PATIENCE) -> None:
        """Read on until the text has this in it."""
        self.wait_until(lambda text: re.search(pattern, text) is not None, pattern, seconds=seconds)

    def wait_until(
        self, condition: Callable[[str], bool], what: str, *, seconds: float = PATIENCE
    ) -> None:
        """Read on until the last of the text is as it should be."""
        deadline = time.monotonic() + seconds
        while not condition(self.text[-_LAST:]):
            assert time.monotonic() < deadline, f"no {what} in {self.text[-2000:]!r}"
            assert self._read(), f"ended without {what}: {self.text[-2000:]!r}"

    def wait(self) -> int:
        """Read on to the end; the exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self) -> bool:
        """Read what there is; whether there may be more."""
        ready, _, _ = select.select([self._ours], [], [], 1.0)
        if not ready:
            return True
        try:
            read = os.read(self._ours, 1 << 16)
        except OSError:  # what Linux says once nobody has it open any more
            return False
        self.text += read.decode(errors="replace")
        return bool(read)
