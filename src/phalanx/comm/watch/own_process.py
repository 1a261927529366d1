"""What a thread can tell of its own process: whether it waits for other ranks, and where it is."""

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from phalanx.comm.progress import THREAD_NAME
from phalanx.comm.watch.stacks import frames_of, module_of, stack_lines

#: Modules in which a process waits for other ranks: whoever is in them is not to blame.
_WAITING = (
    "phalanx.comm.mpi",
    "phalanx.comm.messages",
    "phalanx.comm.progress",
    "phalanx.comm.device",
    "torch.distributed",
)
#: Modules in which it waits for a person.
_ASKING = ("bdb", "pdb")
#: Threads that are always there.
_OURS = ("phalanx-watch", "mpi-progress", THREAD_NAME)


def waits_for_ranks() -> bool:
    """Whether the main thread, or another that works for it, is inside of a communication."""
    return any(
        module_of(one).startswith(_WAITING)
        for frame in _threads().values()
        for one in frames_of(frame)
    )


def waits_for_a_person() -> bool:
    """Whether somebody looks at the main thread with Python's debugger."""
    return any(module_of(one) in _ASKING for one in frames_of(_main_frame()))


def stack_text() -> str:
    """Where the main thread is, and behind it the others that work."""
    text = stack_lines(_main_frame())
    for name, frame in _threads().items():
        if name != threading.main_thread().name and _has_work(frame):
            text += f"  in thread {name}:\n" + stack_lines(frame)
    return text


def bytes_moved() -> int:
    """What the main thread has read and written so far; 0 where the kernel does not count it."""
    moved = 0
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/self/task/{os.getpid()}/io").read_text().splitlines():
            name, _, count = line.partition(":")
            moved += int(count) if name in ("rchar", "wchar") else 0
    return moved


def computed() -> int:
    """The nanoseconds of a processor that the main thread has taken so far."""
    clock = time.pthread_getcpuclockid(threading.main_thread().ident or 0)
    return time.clock_gettime_ns(clock)


def _threads() -> dict[str, FrameType]:
    """The frames of all threads that may work, by name; autograd's on a GPU have none."""
    names = {one.ident: one.name for one in threading.enumerate()}
    frames = sys._current_frames()
    # Its own frame would hold on to itself, and to all others with whatever they had in memory.
    frames.pop(threading.get_ident(), None)
    named = {names.get(number, f"{number:#x}"): frame for number, frame in frames.items()}
    return {name: frame for name, frame in named.items() if name not in _OURS}


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)


def _has_work(frame: FrameType) -> bool:
    """Whether a thread is not one of a pool that waits for work."""
    return module_of(frame) != "concurrent.futures.thread"
