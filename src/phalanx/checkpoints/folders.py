"""The folders of checkpoints: their names, how one appears whole or not at all, which ones go.

    step-000000500                    a checkpoint
    step-000000500-2                  another of the same step, which takes its place
    step-000000500.partial-1f2e3d4c   one that is being written, or removed

A folder under way is locked by the process that writes it. The lock is the kernel's: whatever ends
that process, others can tell, and remove what it has left.
"""

import errno
import fcntl
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import final

from phalanx.errors import CheckpointError

_NAME = re.compile(r"step-(\d{9,15})(?:-([1-9]\d{0,8}))?")
_PARTIAL = re.compile(r"step-\d{9,15}\.partial-[0-9a-f]{8}")
#: On a file system without locks nobody can tell who is alive, but nobody writes for so long.
_ABANDONED_SECONDS = 24 * 60 * 60
#: What file systems say that sync files and have nothing to do for folders.
_NOT_OF_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


def written(folder: Path) -> list[Path]:
    """The checkpoints in a folder, whole or not, the newest first."""
    try:
        found = [(match, one) for one in folder.iterdir() if (match := _NAME.fullmatch(one.name))]
    except (FileNotFoundError, NotADirectoryError):
        return []
    order = [((int(match[1]), int(match[2] or 1)), one) for match, one in found]
    return [one for _, one in sorted(order, reverse=True)]


@final
class Claim:
    """That one training alone writes into a folder: another one's checkpoints would go with each
    of its own. Held from when it is made until it is freed, or this process ends."""

    def __init__(self, folder: Path) -> None:
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise CheckpointError(
                f"{folder}: another training writes its checkpoints there: wait for it, or name "
                "another folder"
            ) from None
        except OSError:  # a file system without locks: nobody can be kept out
            pass

    def free(self) -> None:
        os.close(self._lock)


@final
class Partial:
    """A folder for a checkpoint that is being written, of this process alone."""

    def __init__(self, folder: Path, step: int) -> None:
        self._folder, self._step = folder, step
        self.path = folder / _partial_name(step)
        self.path.mkdir()
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def finish(self) -> Path:
        """Give it its name; everything in it must be on the disk."""
        _sync(self._lock)
        before = [one for one in written(self._folder) if _step(one) == self._step]
        number = 1 + max((_number(one) for one in before), default=0)
        suffix = "" if number == 1 else f"-{number}"
        path = self._folder / f"step-{self._step:09}{suffix}"
        self.path.rename(path)
        sync_folder(self._folder)
        os.close(self._lock)
        return path

    def drop(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_others(folder: Path, newest: Path, *, keep: int) -> None:
    """Remove all checkpoints but the newest so many, and what writers that died have left.

    Those of later steps are of a training that has been gone back on, those of the same step are
    replaced: neither must be taken for where the training stands.
    """
    others = [one for one in written(folder) if one != newest]
    before = [one for one in others if _step(one) < _step(newest)]
    for one in others:
        if one not in before[: keep - 1]:
            # Not under its own name: what is left of it must not be taken for a checkpoint.
            gone = folder / _partial_name(_step(one))
            with suppress(OSError):
                one.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)
    for one in folder.iterdir():
        if _PARTIAL.fullmatch(one.name) and _is_abandoned(one):
            shutil.rmtree(one, ignore_errors=True)


def _is_abandoned(partial: Path) -> bool:
    try:
        descriptor = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # gone
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return time.time() - os.fstat(descriptor).st_mtime > _ABANDONED_SECONDS
    else:
        return True
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Have the kernel write the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _NOT_OF_FOLDERS:
            raise


def _partial_name(step: int) -> str:
    return f"step-{step:09}.partial-{secrets.token_hex(4)}"


def _step(path: Path) -> int:
    return int(path.name.split("-")[1])


def _number(path: Path) -> int:
    return int([*path.name.split("-"), "1"][2])
