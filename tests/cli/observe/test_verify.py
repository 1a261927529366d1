"""`phalanx verify`: from the command line to a verdict."""

import json
from pathlib import Path

import pytest

from tests.commands import Phalanx

BY_RANK = """
import os
from torch import nn

class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, inputs):
        return self.layers(inputs) * (1 + int(os.environ["OMPI_COMM_WORLD_RANK"]))

def make():
    return Odd()
"""


@pytest.mark.long
def test_as_promised(phalanx: Phalanx) -> None:
    done = phalanx("verify", "--dataset", "iris", "--strategy", "tensor", "--ranks", 2)
    assert done.returncode == 0, done.stderr
    assert "all 3 ways came to what is promised" in done.stdout


@pytest.mark.long
def test_a_model_that_looks_at_its_rank(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(BY_RANK)
    done = phalanx(
        *("verify", "--model", "odd.py:make", "--ranks", 2, "--steps", 2, "--json", "found.json")
    )
    assert done.returncode == 1, done.stderr
    assert "4 of 4 ways did not come to the same" in done.stdout, "three go on from wrong weights"
    assert "2 ranks, central: differs first in weights, step 1: layers.1." in done.stdout
    assert done.stdout.count("depends on the rank") == 1
    found = json.loads((tmp_path / "found.json").read_text())
    assert [one["as promised"] for one in found["ways"]] == [True] + [False] * 4


def test_refusals(phalanx: Phalanx) -> None:
    for flags, message in (
        (("--ranks", 1), "--ranks must be at least 2"),
        (("--steps", 1), "--steps must be at least 2"),
        (("--strategy", "async", "--ranks", 2), "there is nothing to verify"),
        (("--strategy", "single", "--ranks", 2, "--overlap"), "--overlap is no option"),
    ):
        done = phalanx("verify", *flags)
        assert done.returncode == 2, flags
        assert message in " ".join(done.stderr.split())
