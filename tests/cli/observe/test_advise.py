"""`phalanx advise` from end to end; nothing here depends on how fast the machine is."""

import json
from pathlib import Path

import pytest

from phalanx.observe.advise.advice import COUNTS
from tests.commands import Phalanx

#: As short as can be: what it finds is judged elsewhere.
SHORT = ("--seconds", "0.5")


@pytest.mark.long
def test_iris_is_best_left_on_one_rank(phalanx: Phalanx, tmp_path: Path) -> None:
    files = ("--json", "advice.json", "--plot", "advice.png")
    done = phalanx("advise", "--dataset", "iris", "--model", "mlp", *SHORT, "--ranks", 2, *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Use 1 rank: an epoch takes ")
    assert "What limits 2 ranks is " in done.stdout
    assert "measuring steps of one rank, and of 2 ranks, round 1 of 4" in done.stderr
    found = json.loads((tmp_path / "advice.json").read_text())
    assert found["use"] == 1
    assert [row["ranks"] for row in found["rows"]] == list(COUNTS)
    for row in found["rows"]:
        assert 0 < row["least"] <= row["seconds"] <= row["most"]
        assert row["efficiency"] == pytest.approx(
            row["load_balance"] * row["communication_efficiency"] * row["computation_scalability"]
        )
    measured = found["measurements"]
    assert (measured["strategy"], measured["together"]["ranks"]) == ("central", 2)
    assert (measured["samples"], measured["batch"], measured["parameters"]) == (120, 16, 1027)
    assert [one["samples"] for one in measured["alone"]] == [16, 8, 2, 1]
    widths = [one["parameters"] for one in measured["sizes"]]
    assert widths == sorted(widths)
    assert len(widths) > 3
    assert (tmp_path / "advice.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
def test_allreduce_on_a_network_that_is_not_here(phalanx: Phalanx, tmp_path: Path) -> None:
    how = ("--strategy", "allreduce", "--network", "100mbit,1ms", "--ranks-per-host", 1)
    words = ("--dataset", "iris", "--model", "logistic", *SHORT, "--ranks", 2, *how)
    done = phalanx("advise", *words, "--json", "advice.json")
    assert done.returncode == 0, done.stderr
    assert "On hosts of 1 rank with 100 Mbit/s, 1 ms between them, " in done.stdout
    found = json.loads((tmp_path / "advice.json").read_text())
    assert not found["link_assumed"]
    assert found["measurements"]["strategy"] == "allreduce"
    two = found["rows"][1]
    assert (two["ranks"], two["hosts"], two["measured"]) == (2, 2, False)
    assert two["seconds"] > 8 * 1e-3  # eight steps, each with a message to the other host


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("--strategy", "local"), "--strategy local: advice is for central and allreduce"),
        (("--ranks", "1"), "--ranks 1: what ranks cost each other takes two to measure"),
        (("--network", "fast"), "--network fast: takes a bandwidth and a latency"),
        (("--ranks", "2", "--ranks-per-host", "3"), "take --ranks 3"),
        (("--ranks-per-host", "0"), "--ranks-per-host must be at least 1, not 0"),
        (("--seconds", "0"), "--seconds must be above 0, not 0"),
        (("--plot", "advice.doc"), "takes a file that ends in .png, .svg, .pdf"),
        (("--json", "no/folder.json"), "name a file in a folder that exists"),
        (("--dataset", "unknown"), "unknown data set"),
    ],
)
def test_what_cannot_be_advised_on_is_refused_at_once(
    phalanx: Phalanx, words: tuple[str, ...], cause: str
) -> None:
    done = phalanx("advise", *words)
    assert done.returncode == 2
    assert cause in " ".join(done.stderr.split())
    assert "measuring" not in done.stderr
