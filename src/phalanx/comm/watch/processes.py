"""What the kernel tells about the process of a rank, whatever that rank is doing."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from phalanx.comm.watch.blame import Condition, Standing
from phalanx.comm.watch.slots import Slot
from phalanx.comm.watch.stacks import dumped_lines

#: What has a process write its stack to a file, by C code alone.
STACK_SIGNAL = signal.SIGUSR2
_SECOND = 10**9
#: Where the thread of a watch is.
_WATCH = "phalanx/comm/watch/watch.py"
#: Seconds that a rank may take to write its stack after the signal.
_PATIENCE = 2.0


def standing(slot: Slot, *, now: int, awake: int, silent: float) -> Standing:
    """How the rank of a slot is, for one who has been awake since then.

    A rank that has not looked for `silent` seconds is one whose Python does not run.
    """
    state = _state(slot)
    runs = now - slot.looked <= silent * _SECOND
    idle = (now - max(slot.moved, awake)) / _SECOND
    condition = Condition.WAITING if slot.waits else Condition.BUSY
    if slot.over or state in (None, "Z", "X"):
        condition = Condition.OVER
    elif state in ("T", "t"):
        condition = Condition.STOPPED
    elif state == "D" and not slot.waits:
        condition = Condition.BLOCKED
    elif not runs:
        condition = Condition.SILENT
    return Standing(
        slot.rank,
        slot.process,
        condition,
        idle,
        step=None if slot.step < 0 else slot.step,
        load=slot.computed / max(slot.looked - slot.moved, 1),
        runs=runs and condition not in (Condition.OVER, Condition.STOPPED),
        place=_place(slot.process) if condition == Condition.BLOCKED else "",
    )


def stack_by_signal(slot: Slot) -> str | None:
    """The stacks of a rank whose Python does not run; None if it does not answer."""
    if slot.stack_file < 0:
        return None
    try:
        with open(f"/proc/{slot.process}/fd/{slot.stack_file}", "rb") as file:
            file.seek(0, os.SEEK_END)
            os.kill(slot.process, STACK_SIGNAL)
            dump = _read_on(file)
    except OSError:
        return None
    return dumped_lines(dump.decode(errors="replace"), but=_WATCH) or None


def _read_on(file: BinaryIO) -> bytes:
    """What is written to a file from now on: all of it, or what there is after some time."""
    deadline, found = time.monotonic() + _PATIENCE, b""
    while time.monotonic() < deadline:
        time.sleep(0.05)
        more = file.read()
        if found and not more:
            break
        found += more
    return found


def born(process: int) -> int:
    """When a process began; two of the same number differ in it."""
    return int(_facts(process)[19])


def _state(slot: Slot) -> str | None:
    """The letter of the kernel's for the state of a rank's main thread; None if it is gone."""
    try:
        return _facts(slot.process)[0] if born(slot.process) == slot.born else None
    except OSError:
        return None


def _facts(process: int) -> list[str]:
    """What the kernel says of a process, behind its name, which may have spaces in it."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _place(process: int) -> str:
    """The function of the kernel's that a process waits in, if it tells."""
    with suppress(OSError):
        place = Path(f"/proc/{process}/wchan").read_text().strip()
        return "" if place == "0" else place
    return ""
