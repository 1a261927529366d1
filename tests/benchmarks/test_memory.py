"""What `central` promises about a host's memory."""

import json

import pytest

from benchmarks.launchers import run
from benchmarks.memory_run import commands, memory_table
from tests.commands import PATIENCE


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2])
def test_central_keeps_one_copy_of_weights_and_state(ranks: int) -> None:
    """12 bytes a parameter once (weights, Adam's two moments) and 4 a rank (its gradient)."""
    lines = run(commands(ranks)["phalanx central"], timeout=PATIENCE)
    measured = json.loads(lines[-1])["bytes_per_parameter"]
    assert measured < 12 + 4 * ranks + 2


def test_the_table_says_what_went_wrong() -> None:
    text = memory_table({"DDP": "ended with code 1", "phalanx central": 20.04}, 2)
    assert "ended with code 1" in text
    assert "| 20.0 | 12 + 4 × 2 |" in text
