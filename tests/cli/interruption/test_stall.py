"""A rank that stands still is named, with the stacks of all, and the job ends."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.interruption.test_failures import ENDLESS, rank_process, until_training
from tests.commands import Phalanx, end_of, left_behind

Start = Callable[..., subprocess.Popen[str]]

SLOW = """
import time
from torch import nn

class Slow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.calls = 0

    def forward(self, inputs):
        self.calls += 1
        {pause}
        return self.layer(inputs.flatten(1))
"""
LOADING = """
import os
import phalanx

def load():
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        wait_for_ever()
    return phalanx.data.load("digits", data_dir=None, options={})

def wait_for_ever():
    while True:
        pass
"""


@pytest.mark.parametrize(
    ("strategy", "stopped"), [("central", 1), pytest.param("allreduce", 0, marks=pytest.mark.long)]
)
def test_a_stopped_rank(start: Start, tmp_path: Path, strategy: str, stopped: int) -> None:
    """Not even rank 0 is needed to say so."""
    process = start("train", "--strategy", strategy, "--ranks", 2, "--stall-after", "4s", *ENDLESS)
    until_training(process)
    time.sleep(2)  # for the watch, which looks ten times in what it waits, to see a step
    number = rank_process(process.pid, stopped)
    os.kill(number, signal.SIGSTOP)
    errors = end_of(process)[1]
    assert process.returncode == 1
    assert re.match(rf"rank {stopped} \(process {number} on \S+\) has stood still since ", errors)
    # Unless all this time the machine had other things to do than to look.
    step = r" (after about step [\d,]+|before its first step was done)"
    assert re.search(rf"{step}: its process is stopped, by a signal", errors)
    waiting = errors.partition(f"rank {1 - stopped} (waiting for other ranks):\n")[2]
    assert re.match(r'  File ".+phalanx/train/training.py", line \d+, in train\n', waiting)
    # In a step, or between two epochs: where it waits is somewhere below the loop.
    assert re.search(r'phalanx/train/fit_loop.py", line \d+, in _run\n', waiting)
    assert re.search(r'phalanx/comm/\w+.py", line \d+, in ', waiting)
    assert f"rank {stopped} (stopped):\n  a stopped process cannot tell where it is\n" in errors
    assert "\nthe job has been stopped\n" in errors
    assert left_behind(tmp_path) == []


def test_a_rank_that_is_stopped_before_it_has_begun(start: Start, tmp_path: Path) -> None:
    process = start("train", "--ranks", 2, "--stall-after", "2s", *ENDLESS)
    number = rank_process(process.pid, 1)
    os.kill(number, signal.SIGSTOP)
    errors = end_of(process)[1]
    assert process.returncode == 1
    assert f"rank 1 (process {number}) is stopped, for 2 s now, and the others cannot" in errors
    assert left_behind(tmp_path) == []


def test_an_endless_loop_in_a_model_of_ones_own(phalanx: Phalanx, tmp_path: Path) -> None:
    """On one rank, without MPI."""
    pause = "while self.calls > 8: pass"
    (tmp_path / "slow.py").write_text(SLOW.format(pause=pause))
    done = phalanx("train", "--model", "slow.py:Slow", "--stall-after", "4s")
    assert done.returncode == 1
    assert re.match(r"rank 0 \(process \d+ on \S+\) has stood still since ", done.stderr)
    assert re.search(r" after step \d: it computes, on \d+% of a core", done.stderr)
    assert "a larger --stall-after, such as 1h; here it is 4s" in done.stderr
    assert re.search(
        r'rank 0 \(computing\):\n.*/slow.py", line 13, in forward\n', done.stderr, re.S
    )
    assert left_behind(tmp_path) == []


@pytest.mark.long
def test_an_endless_loop_in_a_data_set_of_ones_own(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(LOADING)
    done = phalanx("train", "--dataset", "own.py:load", "--ranks", 2, "--stall-after", "4s")
    assert done.returncode == 1
    # On a machine that is busy enough, its watch may not come to run beside the loop.
    why = "( was done: it computes|, or soon after: its Python does not run)"
    assert re.match(rf"rank 1 .* before its first step{why}", done.stderr)
    assert re.search(r"rank 1 \(.+\):\n.*own.py.* in load\n.*in wait_", done.stderr, re.S)
    assert re.search(r"rank 0 \(waiting for other ranks\):\n  File ", done.stderr)
    assert left_behind(tmp_path) == []


def test_a_slow_training_is_left_alone(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW.format(pause="time.sleep(0.25)"))
    few = ("--steps-per-epoch", 20, "--epochs", 1)
    done = phalanx("train", "--model", "slow.py:Slow", *few, "--stall-after", "4s")
    assert done.returncode == 0, done.stderr
    assert "stood still" not in done.stderr


@pytest.mark.parametrize("limit", ["soon", "5", "5 days", "-1s"])
def test_what_is_no_duration_is_refused(phalanx: Phalanx, limit: str) -> None:
    done = phalanx("train", f"--stall-after={limit}")
    assert done.returncode == 2
    assert f"--stall-after {limit}: takes 30s, 5m, 1h or never" in done.stderr
