"""A job that fails ends as a whole: soon, with one explanation, and with nothing left behind."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import PATIENCE, Phalanx, end_of, left_behind

Start = Callable[..., subprocess.Popen[str]]
ENDLESS = ("--epochs", 1000000, "--hidden", 8)
#: By `central`: ranks that share memory, and that wait for each other in barriers.
LONG = ("train", "--strategy", "central", "--ranks", 2, *ENDLESS)

FAILING = """
import os
from torch import nn

class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.calls = 0

    def forward(self, inputs):
        self.calls += 1
        if self.calls > 3 and {condition}:
            raise RuntimeError("the seventh seal")
        return self.layer(inputs.flatten(1))
"""


@pytest.mark.parametrize(
    "condition", ["os.environ['OMPI_COMM_WORLD_RANK'] == '1'", "True"], ids=["rank 1", "all ranks"]
)
def test_an_exception_ends_all_ranks_with_one_traceback(
    phalanx: Phalanx, tmp_path: Path, condition: str
) -> None:
    (tmp_path / "failing.py").write_text(FAILING.format(condition=condition))
    done = phalanx("train", "--strategy", "central", "--model", "failing.py:Failing", "--ranks", 2)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert done.stderr.count("the seventh seal") == 2  # the line of code, and the error itself
    assert done.stderr.startswith("rank ")
    assert "MPI_ABORT" not in done.stderr
    assert left_behind(tmp_path) == []


def until_training(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("epoch 2/"):
            return
    raise AssertionError(f"the training ended by itself: {process.communicate()[1]}")


def test_a_killed_launcher_leaves_nothing_behind(start: Start, tmp_path: Path) -> None:
    process = start(*LONG)
    until_training(process)
    process.kill()
    process.wait()
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    "strategy",
    [
        "central",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("allreduce", "server", "local")),
    ],
)
def test_a_killed_rank_ends_the_job(start: Start, tmp_path: Path, strategy: str) -> None:
    """Whatever the others wait for: a barrier, a sum, a message, or nobody at all."""
    process = start(*("train", "--strategy", strategy, "--ranks", 2), *ENDLESS)
    until_training(process)
    os.kill(rank_process(process.pid), signal.SIGKILL)
    errors = end_of(process)[1]
    assert process.returncode not in (0, None)
    assert "rank 1 was ended by signal 9" in errors
    assert "Traceback" not in errors
    assert left_behind(tmp_path) == []


def rank_process(launcher: int, rank: int = 1) -> int:
    """The process of a rank of a job."""
    number = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for entry in Path("/proc").iterdir():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
                mpiexec = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()[0]
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except (OSError, IndexError):
                continue
            if number in variables and parent == mpiexec:
                return int(entry.name)
    raise AssertionError(f"no rank {rank} found")
