"""The example of a strategy of one's own, as its reader would run it."""

import json
from pathlib import Path

import pytest

from tests.commands import Phalanx
from tests.job_commands import OnRanks

GOSSIP = Path(__file__).parents[3] / "examples" / "own_strategy.py"


@pytest.mark.ranks(2)
def test_the_example_learns(on_ranks: OnRanks, shared_path: Path) -> None:
    done = on_ranks(
        *("train", "--strategy", f"{GOSSIP}:Gossip", "--ranks", 2, "--output", "run"),
        *("--epochs", 8, "--learning-rate", 0.1, "--momentum", 0.9),
    )
    assert done.stderr == ""
    assert "own_strategy.py:Gossip on 2 ranks" in done.stdout
    result = json.loads((shared_path / "run" / "result.json").read_text())
    assert result["test"]["accuracy"] >= 0.95
    again = on_ranks("evaluate", "run", alone=True)
    assert f"accuracy {result['test']['accuracy']:.2%}" in again.stdout


@pytest.mark.ranks(3)
def test_its_option_is_a_flag(on_ranks: OnRanks, shared_path: Path) -> None:
    """Of three ranks each has the others beside it already: a wider ring changes nothing."""
    digests = []
    for neighbours in (1, 2):
        on_ranks(
            *("train", "--strategy", f"{GOSSIP}:Gossip", "--neighbours", neighbours),
            *("--ranks", 3, "--epochs", 1, "--output", f"run-{neighbours}"),
        )
        run = shared_path / f"run-{neighbours}"
        config = json.loads((run / "config.json").read_text())
        assert config["settings"]["own"] == {"strategy": {"neighbours": neighbours}}
        digests.append(json.loads((run / "result.json").read_text())["weights_sha256"])
    assert digests[0] == digests[1]


def test_its_option_has_a_limit(phalanx: Phalanx) -> None:
    done = phalanx("train", "--strategy", f"{GOSSIP}:Gossip", "--neighbours", 0)
    assert done.returncode == 2
    assert "neighbours must be at least 1, not 0" in done.stderr


def test_the_example_of_a_model_has_one_too(phalanx: Phalanx) -> None:
    model = f"{GOSSIP.with_name('own_model.py')}:make_model"
    done = phalanx("train", "--model", model, "--width", 7, "--epochs", 1)
    assert done.returncode == 0, done.stderr
    assert f"{64 * 7 + 7 + 7 * 10 + 10:,}" in done.stdout


def test_a_refusal_comes_before_any_rank(phalanx: Phalanx) -> None:
    for name, cause in (("absent.py:Gossip", "absent.py"), (f"{GOSSIP}:", "not of the form")):
        done = phalanx("train", "--strategy", name, "--ranks", 2, PHALANX_MPIEXEC="/nonexistent")
        assert done.returncode == 2
        assert cause in done.stderr
