"""The example of a strategy of one's own, as its reader would run it."""

import json
from pathlib import Path

from tests.commands import Phalanx

GOSSIP = Path(__file__).parents[2] / "examples" / "own_strategy.py"


def test_the_example_learns(phalanx: Phalanx, tmp_path: Path) -> None:
    done = phalanx(
        *("train", "--strategy", f"{GOSSIP}:Gossip", "--ranks", 2, "--output", "run"),
        *("--epochs", 8, "--learning-rate", 0.1, "--momentum", 0.9),
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "own_strategy.py:Gossip on 2 ranks" in done.stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["test"]["accuracy"] >= 0.95
    again = phalanx("evaluate", "run")
    assert f"accuracy {result['test']['accuracy']:.2%}" in again.stdout


def test_a_refusal_comes_before_any_rank(phalanx: Phalanx) -> None:
    for name, cause in (("absent.py:Gossip", "absent.py"), (f"{GOSSIP}:", "not of the form")):
        done = phalanx("train", "--strategy", name, "--ranks", 2, PHALANX_MPIEXEC="/nonexistent")
        assert done.returncode == 2
        assert cause in done.stderr
