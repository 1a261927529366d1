"""Whether what a file unpacks to fits in memory, asked before any of it is taken. Without torch."""

import resource
import sys
from pathlib import Path

from phalanx.comm.free_memory import free_memory as free_memory_of_host
from phalanx.errors import DataError
from phalanx.wording import byte_size

#: What is read is held besides what is made of it: a copy in another type, and which are finite.
_COPIES = 3


def check_memory(size: int, *, where: str) -> None:
    """Raise a DataError if so many bytes, and what is made of them, are more than is free."""
    free = free_memory()
    if _COPIES * size > free:
        raise DataError(
            f"{where}: {byte_size(size)} once unpacked, which takes up to "
            f"{byte_size(_COPIES * size)} of memory, and {byte_size(free)} are free: is the file "
            "damaged? Arrays in .npy files of a folder may be larger than memory"
        )


def free_memory() -> int:
    """The bytes that this process may still take: of the machine, of its container, by ulimit."""
    return max(min(free_memory_of_host(), _limit()), 0)


def _limit() -> int:
    """What `ulimit -v` leaves."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return sys.maxsize
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:  # a kernel that does not tell
        pages = 0
    return most - pages * resource.getpagesize()
