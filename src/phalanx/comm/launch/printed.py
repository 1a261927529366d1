"""What the ranks print, passed on where it does not go to a terminal.

mpiexec says nothing of output that it could not write, as on a full disk; this process notices.
"""

import os
import subprocess
import sys
import threading
from functools import partial
from typing import IO, final

_CHUNK = 1 << 16
#: Seconds without a byte, after mpiexec has ended: what still holds the pipe open is none of ours.
_PATIENCE = 1.0


def where_to() -> int | None:
    """What mpiexec's standard output is to be: this process's own, or a pipe to it."""
    try:
        return None if os.isatty(sys.stdout.fileno()) else subprocess.PIPE
    except (OSError, ValueError, AttributeError):  # closed, or no file at all
        return None


@final
class Printed:
    """Copies what comes from mpiexec to this process's standard output, in a thread."""

    def __init__(self, source: IO[bytes] | None) -> None:
        self._source = source
        self._count = 0
        self._is_writing = False
        self._thread = threading.Thread(target=self._copy, daemon=True)

    def start(self) -> None:
        """Copy from now on, if there is anything to copy from."""
        if self._source is not None:
            self._thread.start()

    def finish(self) -> None:
        """Once mpiexec has ended: wait for the rest, however slow its reader is."""
        seen = -1
        while self._source is not None and self._thread.is_alive():
            self._thread.join(timeout=_PATIENCE)
            if not self._is_writing and seen == self._count:
                return
            seen = self._count

    def _copy(self) -> None:
        assert self._source is not None
        for chunk in iter(partial(os.read, self._source.fileno(), _CHUNK), b""):
            self._is_writing = True
            _pass_on(chunk)
            self._is_writing = False
            self._count += len(chunk)


def _pass_on(chunk: bytes) -> None:
    write = getattr(sys.stdout, "write_bytes", None)
    if write is not None:  # the command line's own stream, which tells of what is lost
        write(chunk)
        return
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
