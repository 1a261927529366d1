"""A run folder belongs to one training at a time.

The lock is the kernel's, on a file in the folder: whatever ends the training that holds it, it is
free again. The file says who that is, and is gone when the training is done.
"""

import fcntl
import os
import socket
from pathlib import Path
from typing import final

from phalanx.errors import RunError
from phalanx.settings.rules import LOCK


@final
class Lock:
    """Held from when it is made until it is freed, or this process ends."""

    def __init__(self, folder: Path) -> None:
        """Raises if somebody else holds it."""
        self._path = folder / LOCK
        try:
            self._descriptor = self._take()
        except OSError as error:
            raise RunError(
                f"{folder}: cannot be written to ({error.strerror}): name another folder with "
                "--output"
            ) from error

    def free(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _take(self) -> int:
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._path, flags, 0o644)
            try:
                self._lock(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            if self._is(descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()} on {socket.gethostname()}".encode(), 0)
                return descriptor
            os.close(descriptor)  # who held it has removed it meanwhile

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace")
            who = f"process {holder}" if holder else "another process"
            raise RunError(
                f"{self._path.parent}: {who} is training into this folder: wait for it, or name "
                "another one with --output"
            ) from None
        except OSError:  # a file system without locks: nobody can be kept out
            pass

    def _is(self, descriptor: int) -> bool:
        """Whether the file under the lock's name is still the one that is open."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False
