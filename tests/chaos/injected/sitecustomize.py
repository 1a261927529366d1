"""Faults in the ranks of a job, at moments that were chosen before.

Python runs this file when it starts, if its folder is on PYTHONPATH. Every rank tells of the phases
that it enters; at the chosen entry of the chosen one it strikes, at once or a few milliseconds
later, from a thread. So the product needs no hook for it.
"""

import faulthandler
import json
import os
import signal
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

#: Has a rank write its stacks down.
STACKS = signal.SIGRTMIN + 5


class Striker:
    """What befalls one rank, and what it has entered so far."""

    def __init__(self, folder: Path, rank: int, strikes: list[dict[str, Any]]) -> None:
        self._folder, self._rank = folder, rank
        self._strikes = [one for one in strikes if one["rank"] == rank]
        self._steps = 0
        self._log = os.open(folder / f"phases.{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._has_mapped = False
        stacks = (folder / f"stacks.{rank}").open("w")
        faulthandler.register(STACKS, file=stacks, all_threads=True)

    def enter(self, name: str) -> None:
        """A phase is about to begin."""
        os.write(self._log, f"{name}\n".encode())
        if name == "step":
            self._steps += 1
            self._note_memory()
        for one in self._strikes:
            if self._steps < one["step"] or name != one["phase"]:
                continue
            if one["skip"]:
                one["skip"] -= 1
                continue
            self._strikes.remove(one)
            if one["delay"]:
                work = threading.Thread(target=self._strike, args=(one,), daemon=True)
                work.start()
            else:
                self._strike(one)
            return

    def _note_memory(self) -> None:
        """Tell once which files of the machine's shared memory this rank uses."""
        if not self._has_mapped:
            self._has_mapped = True
            lines = Path("/proc/self/maps").read_text().splitlines()
            names = {line.split()[5] for line in lines if "/dev/shm/" in line}
            (self._folder / f"memory.{self._rank}").write_text("\n".join(names))

    def _strike(self, one: dict[str, Any]) -> None:
        time.sleep(one["delay"])
        try:  # once, however often the ranks are started
            with (self._folder / f"struck.{self._rank}").open("x") as file:
                file.write(f"{time.time()} {one['action']}")
        except FileExistsError:
            return
        match one["action"]:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "kill mpiexec":
                os.kill(os.getppid(), signal.SIGKILL)
            case "kill launcher":
                os.kill(_parent(os.getppid()), signal.SIGKILL)
            case "kill all":
                mpiexec = os.getppid()
                others = [*map(int, _children(mpiexec)), mpiexec, os.getpid()]
                for process in others:
                    os.kill(process, signal.SIGKILL)
            case "ask" | "ask twice" as action:
                launcher = _parent(os.getppid())
                os.kill(launcher, signal.SIGTERM)
                if action == "ask twice":
                    time.sleep(0.05)
                    os.kill(launcher, signal.SIGTERM)
            case other:
                raise ValueError(other)


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def _children(process: int) -> list[str]:
    """But for this one."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    found = [one for task in tasks for one in task.read_text().split()]
    return [one for one in found if int(one) != os.getpid()]


def _install() -> None:
    from phalanx import clock

    striker = Striker(
        Path(os.environ["CHAOS_FOLDER"]),
        int(os.environ["OMPI_COMM_WORLD_RANK"]),
        json.loads(os.environ["CHAOS_STRIKES"]),
    )
    phase = clock.phase

    def struck(name: str) -> AbstractContextManager[None]:
        striker.enter(name)
        return phase(name)

    clock.phase = struck


if "CHAOS_FOLDER" in os.environ and "OMPI_COMM_WORLD_RANK" in os.environ:
    _install()
