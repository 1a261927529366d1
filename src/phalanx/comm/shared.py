"""Memory that all ranks of a host share.

The memory has no name: it is an anonymous file of the kernel's that the ranks reach through the
creator's open descriptor, so whatever kills a job, nothing of it stays behind, and a container's
small /dev/shm does not limit it. Where ranks cannot see each other under /proc, or the kernel makes
no such file, one in /dev/shm serves, unlinked as soon as everybody has mapped it.
"""

import errno
import mmap
import os
import secrets
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.comm.free_memory import free_memory
from phalanx.errors import PhalanxError

#: Tensors start on pages of their own, so that two ranks seldom write to the same cache line.
_PAGE = mmap.PAGESIZE
_NAMED_FOLDER = Path("/dev/shm")  # where POSIX keeps shared memory on Linux


class SharedMemoryError(PhalanxError):
    """The host cannot give its ranks the memory they need in common."""

    exit_code = 1


class _Maps(NamedTuple):
    """A segment in this process, twice: as all ranks see it, and with what this one changes."""

    shared: mmap.mmap
    own: mmap.mmap


class SharedMemory:
    """A segment that all ranks of a host have mapped, handed out as tensors, all zero at first."""

    def __init__(self, host: Communicator, size: int) -> None:
        """Collective over the ranks of one host."""
        self._map, self._own = _map(host, max(size, 1))
        self._used = 0

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The next tensor in the segment; every rank must ask for the same ones in order."""
        count = prod(shape)
        start = self._used
        self._used += room_for(shape, dtype)
        if count == 0:
            return torch.empty(shape, dtype=dtype, device="cpu")
        return torch.frombuffer(self._map, dtype=dtype, count=count, offset=start).view(shape)

    def own(self, tensor: Tensor) -> Tensor:
        """The same numbers, where no other rank sees what this one writes.

        That takes memory only for what is written. `forget` undoes it.
        """
        if tensor.numel() == 0:
            return tensor
        start = tensor.data_ptr() - torch.frombuffer(self._map, dtype=torch.uint8).data_ptr()
        own = torch.frombuffer(self._own, dtype=tensor.dtype, count=tensor.numel(), offset=start)
        return own.view(tensor.shape)

    def forget(self) -> None:
        """Have what `own` gives be what all ranks see again."""
        self._own.madvise(mmap.MADV_DONTNEED)


def room_for(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """The bytes that a tensor takes in a segment."""
    return -(-prod(shape) * dtype.itemsize // _PAGE) * _PAGE


class _Segment(NamedTuple):
    """What the first rank has made: its open descriptor, and by what the others find it."""

    descriptor: int
    path: str
    has_name: bool = False


class _Told(NamedTuple):
    """What the others are told of it."""

    path: str
    identity: tuple[int, int, int]


def _map(host: Communicator, size: int) -> _Maps:
    """Map one segment on all ranks: unnamed, or where that fails on any of them, named."""
    reasons = []
    for create in (_unnamed, _named):
        mapped = _map_through(host, size, create)
        if isinstance(mapped, _Maps):
            return mapped
        reasons.append(mapped)
    raise SharedMemoryError(
        "the ranks of this host cannot map each other's memory, neither through /proc "
        f"({reasons[0]}) nor through {_NAMED_FOLDER} ({reasons[1]}): are they in containers of "
        "their own? Strategy 'allreduce' needs no shared memory"
    )


def _map_through(host: Communicator, size: int, create: Callable[[int], _Segment]) -> _Maps | str:
    """Collective. The segment that the first rank creates; why not, if not every rank can map it.

    Raises where there is too little room, which no other way to create it would change.
    """
    segment: _Segment | None = None
    told: _Told | OSError | None = None
    if host.rank == 0:
        try:
            segment = create(size)
            told = _Told(segment.path, _identity(segment.descriptor))
        except OSError as error:
            told = error
    told = host.broadcast_object(told)
    assert told is not None
    if isinstance(told, OSError):
        if told.errno in (errno.ENOSPC, errno.ENOMEM):
            raise SharedMemoryError(_no_room(told, size))
        return told.strerror or str(told)
    mapped, reason = _map_here(told, size, segment)
    reasons = [one for one in host.allgather_objects(reason) if one]
    if segment is not None:
        os.close(segment.descriptor)
        if segment.has_name:
            Path(segment.path).unlink(missing_ok=True)
    return reasons[0] if mapped is None or reasons else mapped


def _map_here(told: _Told, size: int, segment: _Segment | None) -> tuple[_Maps | None, str | None]:
    """The segment in this process, or why not."""
    descriptor = None
    try:
        if segment is not None:
            return _map_twice(segment.descriptor, size), None
        # What has that path here may be anything, a pipe or a terminal too, if this rank sees other
        # processes or files than the first: it is looked at before a byte of it is touched.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        descriptor = os.open(told.path, flags)
        if _identity(descriptor) != told.identity:
            return None, f"{told.path} is another file there"
        return _map_twice(descriptor, size), None
    except (OSError, ValueError) as error:
        return None, str(error)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _map_twice(descriptor: int, size: int) -> _Maps:
    # Nothing is set aside for what a rank may change: that is little, or nothing, as a rule.
    private = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
    return _Maps(mmap.mmap(descriptor, size), mmap.mmap(descriptor, size, flags=private))


def _identity(descriptor: int) -> tuple[int, int, int]:
    """What no other file has: device and inode; and the length that is to be mapped."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size


def _unnamed(size: int) -> _Segment:
    if not hasattr(os, "memfd_create"):  # Linux has it since 3.17
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    descriptor = os.memfd_create("phalanx", os.MFD_CLOEXEC)
    return _Segment(_reserve(descriptor, size), f"/proc/{os.getpid()}/fd/{descriptor}")


def _named(size: int) -> _Segment:
    path = _NAMED_FOLDER / f"phalanx-{os.getuid()}-{secrets.token_hex(8)}"
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        return _Segment(_reserve(descriptor, size), str(path), has_name=True)
    except OSError:
        path.unlink()
        raise


def _reserve(descriptor: int, size: int) -> int:
    """Have the kernel set the memory aside now, or refuse.

    Merely setting the file's length would succeed, and the first write beyond what there is would
    end the process with SIGBUS. Asking for more than the host has would wake the OOM killer.
    """
    try:
        if size > free_memory():
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _no_room(error: OSError, size: int) -> str:
    return (
        f"this host has no room for {size / 2**20:,.0f} MiB of shared memory ({error.strerror}): "
        "free some, give a container more (`docker run --shm-size`), use fewer shards, or take "
        "strategy 'allreduce'"
    )
