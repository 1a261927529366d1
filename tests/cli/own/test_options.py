"""Options that a user's own code declares, as flags: read without running it, before any rank."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx.cli.app import app
from phalanx.errors import UsageError
from tests.commands import Phalanx

#: Run anywhere but on a rank, it would end the command.
LOUD = "import os\nassert os.environ.get('RANKS_MAY_RUN_THIS')\n"
STRATEGY = """
from dataclasses import dataclass
from phalanx import Strategy
from phalanx.strategies.allreduce import Allreduce

@dataclass(frozen=True)
class Ring(Strategy):
    #: Ranks on each side.
    neighbours: int = 1
    loud: bool = True

    def bind(self, comm, task):
        if comm.rank == 0:
            print(f"bound {self}")
        return Allreduce().bind(comm, task)

@dataclass(frozen=True)
class Taken(Strategy):
    epochs: int = 3

ring = Ring
"""
MODEL = """
from torch import nn

def net(classes, width: int = 8):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, classes))
"""
DATA = """
import torch
import phalanx

def points(count: int = 40, *, seed):
    inputs = torch.randn(count, 64, generator=torch.Generator().manual_seed(seed))
    split = phalanx.Split(inputs, (inputs[:, 0] > 0).long())
    return phalanx.Dataset("points", split, split, ("left", "right"))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("ring", STRATEGY), ("nets", MODEL), ("sets", DATA)):
        (tmp_path / f"{name}.py").write_text(LOUD + text)
    return tmp_path


def test_a_training_by_flags_of_all_three(phalanx: Phalanx, here: Path) -> None:
    strategy = ("--strategy", "ring.py:Ring", "--neighbours", 2, "--no-loud")
    more = ("--model", "nets.py:net", "--width", 5, "--dataset", "sets.py:points", "--count", 30)
    done = phalanx(
        "train",
        *strategy,
        *more,
        "--ranks",
        2,
        "--epochs",
        1,
        "--output",
        "run",
        RANKS_MAY_RUN_THIS="1",
    )
    assert done.returncode == 0, done.stderr
    assert "bound Ring(neighbours=2, loud=False)" in done.stdout
    assert f"{64 * 5 + 5}" in done.stdout
    assert "sets.py:points, 30 training" in done.stdout
    settings = json.loads((here / "run" / "config.json").read_text())["settings"]
    assert settings["own"] == {
        "strategy": {"neighbours": 2, "loud": False},
        "model": {"width": 5},
        "dataset": {"count": 30},
    }
    # How it was trained does not bind how it is used; what it is does.
    (here / "ring.py").unlink()
    again = phalanx("evaluate", "run", "--trust-code", RANKS_MAY_RUN_THIS="1")
    assert again.returncode == 0, again.stderr
    assert "30 test samples" in again.stdout


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["train", *arguments])
    assert done.exit_code != 0
    if isinstance(done.exception, UsageError):
        return str(done.exception)
    assert done.exit_code == 2
    return " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["--neighbours", "2"], "No such option: --neighbours"),
        (["--strategy", "ring.py:Ring", "--neighbors", "2"], "--neighbours"),
        (
            ["--strategy", "ring.py:Ring", "--neighbours", "few"],
            "--neighbours must be a whole number",
        ),
        (["--strategy", "ring.py:ring", "--neighbours", "2"], "no def and no class of the name"),
        (["--strategy", "ring.py:Taken"], "--epochs is a flag of Phalanx's own: rename it"),
        (["--strategy", "absent.py:Ring", "--neighbours", "2"], "there is no file"),
        (
            ["--model", "nets.py:net", "--hidden", "8"],
            "--hidden is no option of it: it takes width",
        ),
        (["--dataset", "sets.py:points", "--target", "8"], "--target is no option of it"),
    ],
)
def test_flags_that_are_not_declared(here: Path, arguments: list[str], cause: str) -> None:
    assert cause in refused(*arguments)


def test_the_help_has_a_panel_for_them(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    for command, name in (("train", "--strategy"), ("compare", "--strategies")):
        done = CliRunner().invoke(app, [command, name, "ring.py:Ring", "--help"])
        assert done.exit_code == 0
        assert "Options of strategy ring.py:Ring" in done.output
        assert "Ranks on each side. [default: 1]" in done.output
        assert "--no-loud" in done.output
    plain = CliRunner().invoke(app, ["train", "--help"]).output
    assert "--neighbours" not in plain


def test_a_config_file_names_the_code_and_its_options(phalanx: Phalanx, here: Path) -> None:
    (here / "some.toml").write_text('strategy = "ring.py:Ring"\nneighbours = 3\nepochs = 1')
    done = phalanx("train", "-c", "some.toml", "--no-loud", RANKS_MAY_RUN_THIS="1")
    assert done.returncode == 0, done.stderr
    assert "bound Ring(neighbours=3, loud=False)" in done.stdout


@pytest.mark.long
def test_a_comparison_gives_them_to_those_that_declare_them(phalanx: Phalanx, here: Path) -> None:
    own = ("--strategies", "allreduce,ring.py:Ring", "--neighbours", 2)
    model = ("--model", "nets.py:net", "--width", 5)
    flags = ("--ranks", 2, "--epochs", 1, "--output", "runs")
    done = phalanx("compare", *own, *model, *flags, RANKS_MAY_RUN_THIS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    configs = {
        path.parent.name: json.loads(path.read_text())["settings"]["own"]
        for path in (here / "runs").glob("*/config.json")
    }
    assert configs == {
        "01-allreduce": {"model": {"width": 5}},
        "02-ring.py-Ring": {"model": {"width": 5}, "strategy": {"neighbours": 2}},
    }


def test_a_comparison_refuses_what_nobody_declares(here: Path) -> None:
    given = ["compare", "--strategies", "allreduce", "--neighbours", "2"]
    assert CliRunner().invoke(app, given).exit_code == 2
    runs = ["compare", "some-run", "--strategies", "ring.py:Ring", "--neighbours", "2"]
    done = CliRunner().invoke(app, runs)
    assert isinstance(done.exception, UsageError)
    assert "leave out --strategies, --neighbours, or the runs" in str(done.exception)


def test_a_run_has_the_options_that_it_was_trained_with(here: Path) -> None:
    done = CliRunner().invoke(app, ["evaluate", "run", "--model", "nets.py:net", "--width", "5"])
    assert isinstance(done.exception, UsageError)
    assert "leave out --width, or the run" in str(done.exception)
