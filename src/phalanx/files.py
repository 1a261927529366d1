"""Opening what a user names as a file, only if it is one. Without torch.

A named pipe would keep us waiting for somebody to write to it, and a device may have no end.
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_OTHERS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_file(path: Path | str) -> BufferedReader:
    """The file at a path, for its bytes; an OSError says what is there instead of one."""
    check_file(path)
    # What the path leads to may be another by now; a pipe is opened without waiting for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _check(os.fstat(descriptor), path)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def check_file(path: Path | str) -> None:
    """Raise an OSError if a path leads to nothing, or to something else than a file."""
    _check(os.stat(path), path)


def what_it_is(path: Path) -> str | None:
    """What a path leads to that is neither a file nor a folder; None if it is not so."""
    try:
        return _OTHERS.get(stat.S_IFMT(path.stat().st_mode))
    except OSError:
        return None


def _check(found: os.stat_result, path: Path | str) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        there = _OTHERS.get(kind, "something else")
        raise OSError(errno.EINVAL, f"it is {there}, not a file", str(path))
