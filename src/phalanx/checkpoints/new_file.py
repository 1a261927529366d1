"""A new file, written past the kernel's cache of files where the file system can do that.

What goes through the cache takes pages of memory that must be found, filled and freed again, by
the cores that train: on a virtual machine, whose unused pages are given back, that took longer than
all the rest of a checkpoint. And it pushes out what is read over and over: the data.
"""

import errno
import fcntl
import os
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

#: Of what goes past the cache, memory and file are cut in whole ones of these.
_BLOCK = 4096
_ROOM = 4 << 20
_DIRECT: int = getattr(os, "O_DIRECT", 0)


def view_of(content: Tensor) -> memoryview:
    """The bytes that a tensor of bytes has, for those who know no tensors."""
    array: Any = content.numpy()
    return memoryview(array)


@final
class NewFile(AbstractContextManager["NewFile"]):
    """Takes bytes one after the other; they are on the disk after `finish`."""

    def __init__(self, path: Path) -> None:
        """Raises a FileExistsError if there is one of that name."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o666)
        self._flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        self._is_direct = False
        room = torch.empty(_ROOM + _BLOCK, dtype=torch.uint8)
        start = -room.data_ptr() % _BLOCK
        self._room, self._used = room[start : start + _ROOM], 0

    def write(self, content: Tensor) -> None:
        """Add bytes, which are the caller's again when this returns."""
        while len(content):
            some = content[: _ROOM - self._used]
            self._room[self._used : self._used + len(some)].copy_(some)
            self._used += len(some)
            content = content[len(some) :]
            if self._used == _ROOM:
                self._go_direct(True)
                self._flush()

    def finish(self) -> None:
        """Have all that was written on the disk."""
        self._go_direct(False)  # the rest is no whole number of blocks
        self._flush()
        os.fsync(self._descriptor)

    def _flush(self) -> None:
        piece = view_of(self._room[: self._used])
        while piece:
            try:
                piece = piece[os.write(self._descriptor, piece) :]
            except OSError as error:
                # Larger blocks than ours, or what was written before was cut short.
                if error.errno != errno.EINVAL or not self._is_direct:
                    raise
                self._go_direct(False)
        self._used = 0

    def _go_direct(self, wanted: bool) -> None:
        if wanted != self._is_direct:
            with suppress(OSError):  # a file system that cannot: through the cache, then
                direct = _DIRECT if wanted else 0
                fcntl.fcntl(self._descriptor, fcntl.F_SETFL, self._flags | direct)
                self._is_direct = wanted

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)
