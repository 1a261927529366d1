"""What the README says to type does what it says: its commands are run, long ones for less long."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.commands import Phalanx
from tests.docs.test_readme import ROOT, commands


@dataclass(frozen=True)
class Run:
    """A command of the README, with flags to make it short, and the accuracy that it ends with."""

    command: str
    less: str = ""
    accuracy: float | None = None


#: Of one folder each, in the order of the README.
FIRST = (
    Run("phalanx train --dataset digits --model simplecnn --ranks 2", accuracy=95.0),
    Run("phalanx evaluate runs/digits-simplecnn-1", accuracy=95.0),
    Run("phalanx predict runs/digits-simplecnn-1 --output answers.csv --ranks 2"),
    Run("phalanx report runs/digits-simplecnn-1 --output page.html"),
    Run("phalanx plot runs/digits-simplecnn-1 --output loss.pdf"),
    Run("phalanx train --config examples/settings.toml --epochs 10", accuracy=90.0),
    Run("phalanx train --model examples/own_model.py:make_model --width 32", accuracy=95.0),
)
BITS = (
    Run("phalanx train --shards 4 --seed 7", less="--epochs 2"),
    Run("phalanx train --shards 4 --seed 7 --ranks 3", less="--epochs 2"),
)
LOST = (
    Run(
        "phalanx train --dataset digits --model simplecnn --epochs 50 --ranks 2 --output runs/long",
        less="--epochs 2",
    ),
    Run("phalanx train --resume runs/long", less="--epochs 3 --ranks 1"),
    Run("phalanx train --resume runs/long --epochs 60", less="--epochs 30", accuracy=95.0),
)


def outputs(runs: tuple[Run, ...], phalanx: Phalanx, folder: Path) -> list[str]:
    """What the commands print, each of which is in the README and ends well."""
    (folder / "examples").symlink_to(ROOT / "examples")
    found = []
    for one in runs:
        assert one.command in commands()
        done = phalanx(*shlex.split(f"{one.command} {one.less}")[1:])
        assert done.returncode == 0, done.stderr
        if one.accuracy is not None:
            (percent,) = re.findall(r"test.* accuracy ([\d.]+)%", done.stdout)
            assert float(percent) >= one.accuracy, one.command
        assert "learned next to nothing" not in done.stdout
        found.append(done.stdout)
    return found


def test_the_first_commands_end_in_networks_that_have_learned(
    phalanx: Phalanx, tmp_path: Path
) -> None:
    said = outputs(FIRST, phalanx, tmp_path)
    assert "(default for digits)" in said[0]
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 360
    assert (tmp_path / "page.html").exists()
    assert (tmp_path / "loss.pdf").exists()


def test_the_bits_are_the_same(phalanx: Phalanx, tmp_path: Path) -> None:
    digests = [
        re.findall(r"weights sha256: (\w+)", one) for one in outputs(BITS, phalanx, tmp_path)
    ]
    assert digests[0] == digests[1] != []


def test_what_is_interrupted_goes_on(phalanx: Phalanx, tmp_path: Path) -> None:
    said = outputs(LOST, phalanx, tmp_path)
    assert "epoch 30/30" in said[-1]


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_small_models_learn_digits_by_their_defaults(phalanx: Phalanx, model: str) -> None:
    done = phalanx("train", "--model", model)
    assert done.returncode == 0, done.stderr
    (percent,) = re.findall(r"^test: .* accuracy ([\d.]+)%", done.stdout, re.M)
    assert float(percent) >= 95.0


def test_iris_is_learned_by_its_defaults(phalanx: Phalanx) -> None:
    done = phalanx("train", "--dataset", "iris")
    (percent,) = re.findall(r"^test: .* accuracy ([\d.]+)%", done.stdout, re.M)
    assert float(percent) >= 90.0


def test_who_learns_nothing_is_told(phalanx: Phalanx) -> None:
    done = phalanx("train", "--learning-rate", "0", "--epochs", "4")
    assert done.returncode == 0, done.stderr
    assert "this network has learned next to nothing: " in done.stdout
    assert "what may help: --learning-rate 0.001, --epochs 30" in done.stdout
