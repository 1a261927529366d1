"""One command under faults: how it ends, and what it leaves behind."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.chaos.faults import Strike
from tests.chaos.injected.sitecustomize import STACKS
from tests.commands import environment, processes_in

HERE = Path(__file__).parent
NETWORK = f"{HERE / 'network.py'}:make_network"
#: Seconds after which a job hangs, on a machine that others use as well.
LIMIT = float(os.environ.get("PHALANX_CHAOS_LIMIT", "240"))
#: Seconds in which all of a job must be gone once its command has ended.
_GONE = 120.0


@dataclass
class Ran:
    """A command that has ended."""

    folder: Path
    command: list[str]
    code: int
    hung: bool
    #: Processes and shared memory.
    left: list[str]

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @cached_property
    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")

    @cached_property
    def errors(self) -> str:
        return (self.folder / "errors").read_text(errors="replace")

    @cached_property
    def result(self) -> dict[str, Any]:
        """Empty if there is none."""
        try:
            found: dict[str, Any] = json.loads((self.run / "result.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    @property
    def digest(self) -> str:
        """Of the weights, as it is shown; nothing if it is not."""
        found = [line for line in self.output.splitlines() if line.startswith("weights sha256: ")]
        return found[-1].split()[-1] if found else ""

    @property
    def history(self) -> list[dict[str, float]]:
        """What each epoch came to, but for how long it took."""
        with (self.run / "history.csv").open() as file:
            rows = list(csv.DictReader(file))
        timed = ("seconds", "samples_per_second")
        return [{k: float(v) for k, v in row.items() if k not in timed and v} for row in rows]

    def struck(self) -> dict[int, float]:
        """When which rank was struck."""
        files = self.folder.glob("struck.*")
        return {int(one.suffix[1:]): float(one.read_text().split()[0]) for one in files}

    def steps_begun(self, rank: int) -> int:
        """By a rank, in all the time that it lived."""
        return (self.folder / f"phases.{rank}").read_text().split("\n").count("step")


def train(folder: Path, *arguments: object, strikes: Sequence[Strike] = ()) -> Ran:
    """Run `phalanx train ARGUMENTS` in a folder, struck as planned, to its end or its limit."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "t").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "phalanx", "train", *map(str, arguments)]
    python_path = os.environ.get("PYTHONPATH", "")
    variables = {
        "PYTHONPATH": f"{HERE / 'injected'}:{python_path}".rstrip(":"),
        "CHAOS_FOLDER": str(folder),
        "CHAOS_STRIKES": json.dumps([asdict(one) for one in strikes]),
        "TMPDIR": str(folder / "t"),
    }
    with (folder / "output").open("w") as output, (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment() | variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )
        hung = False
        try:
            code = process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            hung, code = True, -1
            _dump_stacks(folder)
            process.kill()
            process.wait()
    left = _left_behind(folder, seconds=0 if hung else _GONE)
    for one in processes_in(folder):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    return Ran(folder, command, code, hung, [] if hung else left)


def shown(ran: Ran) -> str:
    """All that somebody needs who looks for what went wrong."""
    told = [f"$ cd {ran.folder}; {shlex.join(ran.command)}", f"exit code {ran.code}"]
    for name in ("output", "errors", *sorted(one.name for one in ran.folder.glob("stacks.*"))):
        text = (ran.folder / name).read_text(errors="replace").rstrip()
        if text:
            told += [f"--- {name}", *text.splitlines()[-60:]]
    return "\n".join(told)


def _dump_stacks(folder: Path) -> None:
    """Have every rank write down where it is."""
    for one in processes_in(folder):
        with suppress(OSError):
            if b"\0OMPI_COMM_WORLD_RANK=" in Path(f"/proc/{one}/environ").read_bytes():
                os.kill(one, STACKS)
    time.sleep(2)


def _left_behind(folder: Path, *, seconds: float) -> list[str]:
    """What a job leaves even after so long: its processes, and the shared memory of its ranks."""
    deadline = time.monotonic() + seconds
    while True:
        left = [f"process {one}" for one in processes_in(folder)]
        for noted in folder.glob("memory.*"):
            left += [one for one in noted.read_text().split("\n") if one and Path(one).exists()]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)
