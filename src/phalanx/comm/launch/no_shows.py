"""Ranks that do not come to where MPI starts: the others would wait for them there for good.

One may be gone: where ranks may be lost mpiexec does not end the job then, and MPI knows nobody yet
who could be missed. One may stand still; only once all have met do they watch each other. On this
host the launcher sees the processes that mpiexec has started.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, final

from phalanx.comm.launch.asking import held_back
from phalanx.comm.launch.roll_call import RollCall
from phalanx.comm.launch.way_back import Notes
from phalanx.wording import counted

#: Seconds between two looks, how many looks in a row must find one gone, and what mpiexec has to
#: end in.
_INTERVAL, _LOOKS, _PATIENCE = 0.5, 6, 3.0
#: What a process does in a state in which it does nothing of its own.
_STANDS_STILL = {
    "T": "is stopped",
    "t": "is held by a debugger",
    "D": "waits for a disk or a network that does not answer",
}


class _Process(NamedTuple):
    number: int
    state: str
    #: What it has computed so far, in the kernel's ticks.
    computed: int


@final
class NoShows:
    """Ends mpiexec if one of its ranks is gone, or stands still, while others wait for it."""

    def __init__(
        self,
        mpiexec: "subprocess.Popen[bytes]",
        *,
        ranks: int,
        roll_call: RollCall,
        notes: Notes,
        stall_after: float | None = None,
    ) -> None:
        """With seconds to `stall_after`, rank 0 notes that all have met."""
        self._mpiexec, self._ranks, self._stall_after = mpiexec, ranks, stall_after
        self._roll_call, self._notes = roll_call, notes
        self._misses = 0
        #: Since when each has stood still, and what it had computed then.
        self._still: dict[int, tuple[float, int]] = {}
        self._looked = 0.0
        #: Why mpiexec was ended.
        self.said = ""

    def start(self) -> None:
        """Look from now on, until MPI has started on all ranks."""
        with held_back():
            threading.Thread(target=self._look, daemon=True).start()

    def code(self) -> int:
        """What the job ends with on that account; says why, if it is not 0."""
        if self.said:
            print(self.said, file=sys.stderr)
        return int(bool(self.said))

    def _look(self) -> None:
        while self._mpiexec.poll() is None and not self._have_met():
            now = _children_of(self._mpiexec.pid)
            self.said = self._gone(len(now)) or self._standing_still(now)
            if self.said:
                self._end()
                return
            with suppress(subprocess.TimeoutExpired):
                self._mpiexec.wait(_INTERVAL)

    def _have_met(self) -> bool:
        return self._roll_call.has_begun or bool(self._notes["met"])

    def _gone(self, there: int) -> str:
        # Whoever waits has been at work for a while, and so all have been started.
        is_missing = there < self._ranks and self._roll_call.is_awaited
        self._misses = self._misses + 1 if is_missing else 0
        if self._misses < _LOOKS:
            return ""
        return f"{counted(self._ranks - there, 'rank')} ended before the job began"

    def _standing_still(self, processes: list[_Process]) -> str:
        after, now = self._stall_after, time.monotonic()
        if after is None:
            return ""
        if now - self._looked > after / 2 + 2 * _INTERVAL:
            self._still.clear()  # all of us may have been stopped, as Slurm does
        self._looked = now
        told = [
            f"{_name_of(one.number)} (process {one.number}) {_STANDS_STILL[one.state]}"
            for one in processes
            if now - self._still_since(one, now) >= after
        ]
        more = f", for {after:g} s now, and the others cannot begin without it"
        return f"{'; '.join(told)}{more}; the job has been stopped" if told else ""

    def _still_since(self, one: _Process, now: float) -> float:
        since, computed = self._still.get(one.number, (now, -1))
        if one.state not in _STANDS_STILL or computed != one.computed:
            since = now
        self._still[one.number] = since, one.computed if one.state in _STANDS_STILL else -1
        return since

    def _end(self) -> None:
        self._mpiexec.send_signal(signal.SIGINT)
        try:
            self._mpiexec.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self._mpiexec.pid, signal.SIGKILL)


def _children_of(process: int) -> list[_Process]:
    found = []
    for one in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            state, parent, *more = one.read_text().rpartition(")")[2].split()
            if int(parent) == process and state != "Z":
                found.append(_Process(int(one.parent.name), state, int(more[9]) + int(more[10])))
    return found


def _name_of(process: int) -> str:
    """Which rank it is, by what mpiexec has told it."""
    with suppress(OSError):
        for entry in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK"):
                return f"rank {value.decode(errors='replace')}"
    return "a rank"
