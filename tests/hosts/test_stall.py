"""A rank that stands still on a host of its own, where nobody is left to name it."""

import re
from pathlib import Path

import pytest

from tests.hosts.network import Network

STOPPING = """
import os, signal
from torch import nn

class Stopping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.calls = 0

    def forward(self, inputs):
        self.calls += 1
        if self.calls > 30 and os.environ["OMPI_COMM_WORLD_RANK"] == "2":
            os.kill(os.getpid(), signal.SIGSTOP)
        return self.layer(inputs.flatten(1))
"""


@pytest.mark.long
def test_the_other_host_says_for_whom_it_waits(hosts: Network, tmp_path: Path) -> None:
    model, run = tmp_path / "stopping.py", tmp_path / "run"
    model.write_text(STOPPING)
    named = ("--model", f"{model}:Stopping", "--output", str(run))
    done = hosts.run((2, 1), "-m", "phalanx", "train", *named, "--stall-after", "5s")
    assert done.returncode == 1
    first, second, _ = hosts.names
    # Not at the beginning of a line: mpiexec's own words, which end in a blank, may come before.
    found = re.search(rf"ranks 0, 1 on {first}: nothing was done since .*$", done.stderr, re.M)
    assert found, done.stderr
    assert found[0].endswith(f"all wait for others (rank 2 on {second}), or for each other")
    calls = re.findall(r'phalanx/comm/(mpi|progress)\.py", line ', done.stderr)
    assert len(calls) >= 2  # one or two on each rank
