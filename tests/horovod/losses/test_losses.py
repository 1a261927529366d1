"""Ranks that are lost while others train in `hvd.elastic.run`: those go on from the last commit."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Phalanx

SCRIPT = Path(__file__).parent / "train.py"
SAMPLES, BATCH, COMMITTED = 60, 2, 4


def train(phalanx: Phalanx, where: str, victim: int, *, min_np: int = 2) -> Any:
    flags = ("--horovod", "-np", 3, "--min-np", min_np)
    return phalanx("run", *flags, sys.executable, SCRIPT, where, victim)


@pytest.mark.parametrize(
    ("where", "victim"),
    [
        ("allreduce", 0),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in (("user code", 0), ("allreduce", 1), ("error", 2))
        ),
    ],
)
def test_the_others_go_on(phalanx: Phalanx, tmp_path: Path, where: str, victim: int) -> None:
    done = train(phalanx, where, victim)
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert said[-1] == f"rank {victim} is lost: going on from the last commit with 2"
    assert len(said) == 1 or (where, said[-2]) == ("error", "ArithmeticError: the seventh seal")
    first, second = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2))
    assert first["starts"] == second["starts"] == [[3, 0, 0], [2, 1, COMMITTED]]
    assert first["resets"] == second["resets"] == [2]
    assert first["kept"] == second["kept"] == [first["committed"]]
    assert first["end"] == second["end"] != first["committed"]
    assert first["result"] == second["result"] == "done"
    # What was committed of the epoch is left out, and each of the rest comes once.
    order = list(range(SAMPLES))
    random.Random(1).shuffle(order)
    later = [one for found in (first, second) for size, _, one in found["seen"] if size == 2]
    left = order[COMMITTED * BATCH * 3 :]
    assert sorted(index for indices in later for index in indices) == sorted(left)


@pytest.mark.long
def test_too_few_are_left(phalanx: Phalanx, tmp_path: Path) -> None:
    done = train(phalanx, "user code", 1, min_np=3)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.partition(": ")[2].startswith(
        "RankLostError: rank 1 is lost: 2 of 3 ranks are left, and --min-np 3 asks for more"
    )
    assert list(tmp_path.iterdir()) == []
