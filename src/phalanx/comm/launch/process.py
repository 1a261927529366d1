"""What a training process sets for itself: its allocator, its threads, its end with its parent."""

import atexit
import ctypes
import gc
import os
import platform
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phalanx.errors import UsageError

#: glibc's mallopt parameters, their environment names, and what suits training: activations of a
#: few MiB come and go every step, and by default each is mapped from and returned to the kernel,
#: page fault by page fault.
_ALLOCATOR = (
    ("MALLOC_MMAP_THRESHOLD_", -3, 32 << 20),
    ("MALLOC_TRIM_THRESHOLD_", -1, 1 << 30),
    ("MALLOC_TOP_PAD_", -2, 64 << 20),
)
_PR_SET_PDEATHSIG = 1
TOO_MANY_THREADS = 4096


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def keep_freed_memory() -> bool:
    """Have glibc's allocator reuse freed memory instead of returning it to the kernel.

    Done in the process, because under mpirun or srun the environment comes too late. A user's own
    MALLOC_* variable wins. Returns whether anything was set; other C libraries have no mallopt.
    """
    mallopt = getattr(_libc(), "mallopt", None)
    if mallopt is None:
        return False
    chosen = [(number, value) for name, number, value in _ALLOCATOR if name not in os.environ]
    return all([mallopt(number, value) == 1 for number, value in chosen]) and bool(chosen)


def allocator_variables() -> dict[str, str]:
    """The same for a process that is yet to start: what its environment should have."""
    return {name: os.environ.get(name, str(value)) for name, _, value in _ALLOCATOR}


def release_freed_memory() -> None:
    """Return to the kernel, once, what has been freed so far; for after a large move."""
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def collect_garbage_seldom() -> None:
    """Start and end sooner, by a third: the many objects that torch makes are there to stay."""
    gc.set_threshold(100_000, 50, 50)
    atexit.register(gc.freeze)


def memory_share() -> int:
    """The bytes of memory that this process uses; shared ones count in part, so that sums add up.

    Freed memory is kept for reuse (see above), and so this is close to the most it ever used.
    """
    try:
        rollup = Path("/proc/self/smaps_rollup").read_text()
    except OSError:  # a kernel without it: shared memory then counts in full
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    return int(found.group(1)) << 10 if found else 0


def processor_name() -> str:
    """What the kernel calls this machine's processor, or at least what kind it is of."""
    try:
        about = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        about = ""
    found = re.search(r"^model name\s*:\s*(.+)$", about, re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent dies, however it dies."""
    prctl = getattr(_libc(), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, number)


def available_cores() -> int:
    """The physical cores that this process may run on; hyper-threads do not count."""
    return len({_core_of(cpu) for cpu in os.sched_getaffinity(0)})


def _core_of(cpu: int) -> str:
    siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return siblings.read_text().strip()
    except OSError:
        return str(cpu)


def check_threads(count: int) -> None:
    """Refuse numbers that cannot be meant: of very many, OpenMP dies without a word."""
    if not 1 <= count < TOO_MANY_THREADS:
        limits = f"from 1 to below {TOO_MANY_THREADS}"
        raise UsageError(f"threads a rank must be {limits}, not {count}")


def threads_per_rank(
    asked: int | None, gather_on_host: Callable[[frozenset[str]], list[frozenset[str]]]
) -> int | None:
    """The compute threads this rank should use, or None to leave a user's OMP_NUM_THREADS alone.

    `gather_on_host` brings together what each rank of this host passes it. The cores that all of
    them may use, shared evenly: right for bound and for unbound ranks.
    """
    if asked is not None:
        check_threads(asked)
        return asked
    mine = frozenset(_core_of(cpu) for cpu in os.sched_getaffinity(0))
    everyone = gather_on_host(mine)
    if "OMP_NUM_THREADS" in os.environ:
        return None
    return max(1, len(frozenset().union(*everyone)) // len(everyone))
