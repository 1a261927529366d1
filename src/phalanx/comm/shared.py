"""Memory that all ranks of a host share.

The memory has no name: it is an anonymous file of the kernel's that the ranks reach through the
creator's open descriptor, so whatever kills a job, nothing of it stays behind, and a container's
small /dev/shm does not limit it. Where ranks cannot see each other under /proc, a file in /dev/shm
serves, unlinked as soon as everybody has mapped it.
"""

import errno
import mmap
import os
import re
import secrets
from collections.abc import Callable
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.errors import PhalanxError

#: Tensors start on pages of their own, so that two ranks seldom write to the same cache line.
_PAGE = mmap.PAGESIZE
_NAMED_FOLDER = Path("/dev/shm")  # where POSIX keeps shared memory on Linux


class SharedMemoryError(PhalanxError):
    """The host cannot give its ranks the memory they need in common."""

    exit_code = 1


class SharedMemory:
    """A segment that all ranks of a host have mapped, handed out as tensors, all zero at first."""

    def __init__(self, host: Communicator, size: int) -> None:
        """Collective over the ranks of one host."""
        self._map = _map(host, max(size, 1))
        self._used = 0

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The next tensor in the segment; every rank must ask for the same ones in order."""
        count = prod(shape)
        start = self._used
        self._used += room_for(shape, dtype)
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self._map, dtype=dtype, count=count, offset=start).view(shape)


def room_for(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """The bytes that a tensor takes in a segment."""
    return -(-prod(shape) * dtype.itemsize // _PAGE) * _PAGE


def _map(host: Communicator, size: int) -> mmap.mmap:
    """Map one segment on all ranks: unnamed, or where that fails on any of them, named."""
    mapped = _map_through(host, size, _unnamed)
    if mapped is None:
        mapped = _map_through(host, size, _named)
    if mapped is None:
        raise SharedMemoryError(
            "the ranks of this host cannot map each other's memory, neither through /proc nor "
            f"through {_NAMED_FOLDER}: are they in containers of their own? "
            "Strategy 'allreduce' needs no shared memory"
        )
    return mapped


def _map_through(
    host: Communicator, size: int, create: Callable[[int], tuple[int, str]]
) -> mmap.mmap | None:
    """Collective. The segment that the first rank creates; None if not every rank can map it."""
    own: tuple[int, str] | str = ""
    if host.rank == 0:
        try:
            own = create(size)
        except OSError as error:
            own = _explain(error, size)
    told = host.broadcast_object(own if isinstance(own, str) else ("", own[1]))
    if isinstance(told, str):
        raise SharedMemoryError(told)
    path = told[1]
    mapped = None
    try:
        descriptor = own[0] if isinstance(own, tuple) else os.open(path, os.O_RDWR | os.O_CLOEXEC)
        mapped = mmap.mmap(descriptor, size)
        if not isinstance(own, tuple):
            os.close(descriptor)
    except OSError:
        pass
    complete = all(host.allgather_objects(mapped is not None))
    if isinstance(own, tuple):
        os.close(own[0])
        if path.startswith(str(_NAMED_FOLDER)):
            os.unlink(path)
    return mapped if complete else None


def _unnamed(size: int) -> tuple[int, str]:
    descriptor = os.memfd_create("phalanx", os.MFD_CLOEXEC)
    return _reserve(descriptor, size), f"/proc/{os.getpid()}/fd/{descriptor}"


def _named(size: int) -> tuple[int, str]:
    path = _NAMED_FOLDER / f"phalanx-{os.getuid()}-{secrets.token_hex(8)}"
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        return _reserve(descriptor, size), str(path)
    except OSError:
        path.unlink()
        raise


def _reserve(descriptor: int, size: int) -> int:
    """Have the kernel set the memory aside now, or refuse.

    Merely setting the file's length would succeed, and the first write beyond what there is would
    end the process with SIGBUS. Asking for more than the host has would wake the OOM killer.
    """
    try:
        if size > _free_memory():
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _free_memory() -> int:
    """The bytes that this host, and the container that we may be in, have left."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    free = int(found.group(1)) << 10 if found else 1 << 62
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
    except (OSError, ValueError):  # no such controller here, or no limit ("max")
        return free
    return min(free, limit - used)


def _explain(error: OSError, size: int) -> str:
    need = f"{size / 2**20:,.0f} MiB of shared memory"
    if error.errno in (errno.ENOSPC, errno.ENOMEM):
        return (
            f"this host has no room for {need} ({error.strerror}): free some, give a container "
            "more (`docker run --shm-size`), use fewer shards, or take strategy 'allreduce'"
        )
    return f"this host refuses {need}: {error.strerror}; strategy 'allreduce' needs none"
