"""A training on two hosts, one of which is cut off: nothing closes, it only falls silent."""

import subprocess
import time
from pathlib import Path

from tests.chaos.faults import Fault
from tests.chaos.job import LIMIT, Ran
from tests.hosts.network import network


def train_on_two_hosts(folder: Path, fault: Fault, how: list[object]) -> Ran:
    """Run `phalanx train HOW` with the last rank on a host of its own, which is cut off."""
    folder.mkdir(parents=True)
    command = ["phalanx", "train", *map(str, how)]
    (strike,) = fault.strikes
    with (
        network(2) as hosts,
        hosts.started((fault.ranks - 1, 1), *command, folder=folder) as job,
    ):
        if not _wait_for_epoch(folder / "run" / "history.csv", strike.skip, job):
            return _ran(folder, command, job)
        (folder / f"struck.{strike.rank}").write_text(f"{time.time()} {strike.action}")
        with hosts.cut_off(1):
            return _ran(folder, command, job)


def _wait_for_epoch(history: Path, number: int, job: "subprocess.Popen[bytes]") -> bool:
    """Whether the training came so far, and is not over."""
    deadline = time.monotonic() + LIMIT
    while not history.exists() or len(history.read_text().splitlines()) <= number:
        if job.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return job.poll() is None


def _ran(folder: Path, command: list[str], job: "subprocess.Popen[bytes]") -> Ran:
    try:
        code, hung = job.wait(timeout=LIMIT), False
    except subprocess.TimeoutExpired:
        code, hung = -1, True
    (folder / "errors").touch()  # both streams are in `output`
    return Ran(folder, command, code, hung, left=[])
