"""`--objective` and `--callback`: found before ranks start, run as a Trainer runs them, and of a
run's folder only if the user names them."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.app import app
from phalanx.errors import UsageError
from tests.commands import Phalanx

EXAMPLES = Path(__file__).parents[3] / "examples"
STEADY = f"{EXAMPLES / 'own_objective.py'}:steady"
NORMS = f"{EXAMPLES / 'own_callback.py'}:Norms"
CODE = """
import torch.nn.functional as F
import phalanx

def entropy(model, batch, scale: float = 1.0):
    inputs, targets = batch
    return scale * F.cross_entropy(model(inputs), targets)

def error(model, batch):
    inputs, targets = batch
    outputs = model(inputs)
    return F.mse_loss(outputs, targets), outputs

def few(model, batch):
    inputs, targets = batch
    counted = targets < 5
    return F.cross_entropy(model(inputs)[counted], targets[counted])

of_few = phalanx.Objective(few, weigh=lambda batch: (batch[1] < 5).sum().item())

def empty(): ...

def greedy(model, batch, more): ...

class Counts(phalanx.Callback):
    def __init__(self, greeting: str = "begun", loud: bool = True):
        self.greeting = greeting
    def on_train_begin(self, trainer):
        print(self.greeting, trainer.comm.size)

class Demanding(phalanx.Callback):
    def __init__(self, path): ...
"""


def run(*arguments: str) -> None:
    assert not app(list(arguments), standalone_mode=False)


def result(folder: Path) -> Any:
    return json.loads((folder / "result.json").read_text())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code.py").write_text(CODE)
    return tmp_path


@pytest.mark.long
def test_the_examples_train_on_ranks_and_go_on(phalanx: Phalanx, tmp_path: Path) -> None:
    ours = ("--objective", STEADY, "--callback", NORMS)
    first = ("--noise", "0.2", "--every-epochs", "2", "--shards", "2", "--epochs", "15")
    one = phalanx("train", *ours, *first, "--output", "one", "--file", "one.csv")
    begun = phalanx("train", *ours, *first, "--output", "two", "--ranks", "2", "--epochs", "7")
    assert (one.returncode, begun.returncode) == (0, 0), one.stderr + begun.stderr
    refused = phalanx("train", "--resume", "two", "--epochs", "15")
    assert refused.returncode == 2
    assert "names code as its objective, which can do whatever you can" in refused.stderr
    two = phalanx("train", "--resume", "two", "--epochs", "15", *ours)
    assert two.returncode == 0, two.stderr
    digests = [re.findall(r"weights sha256: (\w+)", done.stdout) for done in (one, two)]
    assert digests[0] == digests[1] != []
    assert (tmp_path / "norms.csv").read_text() == (tmp_path / "one.csv").read_text()
    assert len((tmp_path / "one.csv").read_text().splitlines()) == 1 + 8
    assert result(tmp_path / "one")["test"]["accuracy"] > 0.95


@pytest.mark.long
def test_the_commands_of_the_page_run(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    page = (EXAMPLES.parent / "docs" / "any-model.md").read_text()
    commands = re.findall(r"^    (phalanx train .*)$", page, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        done = phalanx(*shlex.split(command)[1:], "--epochs", "2")
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "norms.csv").exists()


def test_an_objective_equals_the_loss_that_it_is(here: Path) -> None:
    run("train", "--epochs", "2", "--output", "loss")
    run("train", "--epochs", "2", "--output", "own", "--objective", "code.py:entropy")
    loss, own = (result(here / name) for name in ("loss", "own"))
    assert own["test"]["loss"] == pytest.approx(loss["test"]["loss"], rel=1e-4)
    assert own["test"]["accuracy"] == pytest.approx(loss["test"]["accuracy"], abs=0.01)
    assert own["test"]["count"] == loss["test"]["count"] == 359
    saved = json.loads((here / "own" / "config.json").read_text())["settings"]
    assert (saved["objective"], saved["loss"]) == ("code.py:entropy", None)


def test_it_is_a_key_of_config_files_and_evaluated(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "settings.toml").write_text(
        'objective = "code.py:entropy"\nscale = 2.0\ncallback = "code.py:Counts"\nepochs = 1\n'
    )
    run("train", "--config", "settings.toml", "--output", "run")
    assert "begun 1" in capsys.readouterr().out
    run("train", "--config", "run/config.json", "--greeting", "again", "--output", "same")
    assert "again 1" in capsys.readouterr().out
    assert result(here / "run")["weights_sha256"] == result(here / "same")["weights_sha256"]
    with pytest.raises(UsageError, match=r"as its objective.*--objective code\.py:entropy"):
        run("evaluate", "run")
    run("evaluate", "run", "--objective", "code.py:entropy")
    assert f"loss {result(here / 'run')['test']['loss']:.6f}" in capsys.readouterr().out
    run("predict", "run", "--output", "answers.csv")  # without it
    with pytest.raises(UsageError, match=r"--objective none: run was trained with code\.py"):
        run("train", "--resume", "run", "--epochs", "2", "--objective", "", "--trust-code")


def test_outputs_of_numbers_and_weights_of_ones_own(here: Path) -> None:
    made = ("--dataset", "synthetic", "--shape", "8", "--samples", "200", "--epochs", "1")
    run("train", *made, "--task", "regression", "--objective", "code.py:error", "--output", "a")
    assert "r2" in result(here / "a")["test"]["more"]
    run("train", "--objective", "code.py:of_few", "--shards", "3", "--epochs", "1", "--output", "b")
    assert result(here / "b")["test"]["count"] == 359


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--objective", "code.py:nothing"), "nothing is not there in"),
        (("--objective", "gone.py:entropy"), "there is no file"),
        (("--objective", "code.py:empty"), "takes 0 of them: define it as empty(model, batch)"),
        (
            ("--objective", "code.py:greedy"),
            "takes 3 of them: define it as greedy(model, batch)",
        ),
        (("--objective", "entropy"), "is not of the form path/to/file.py:function"),
        (("--callback", "broken.py:Counts"), "line 1: not Python"),
        (("--objective", "code.py:entropy", "--loss", "hinge"), "leave out --loss"),
        (("--objective", "code.py:entropy", "--reduction", "sum"), "leave out --reduction"),
        (("--objective", "code.py:entropy", "--compile"), "not a function of your own"),
        (("--objective", "code.py:entropy", "--strategy", "gather"), "give a --loss in place of"),
        (("--dataset", "text", "--objective", "code.py:entropy", "--metrics", "bits"), "leave out"),
    ],
)
def test_what_cannot_work_is_refused_before_ranks_start(
    here: Path, flags: tuple[str, ...], message: str
) -> None:
    (here / "broken.py").write_text("class Counts(:\n")
    with pytest.raises(UsageError, match=re.escape(message)):
        run("train", "--ranks", "2", *flags)
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("entropy", "derives from phalanx.Callback, and it is of type function"),
        ("Demanding", "its field 'path' needs a default"),
    ],
)
def test_a_callback_is_one(here: Path, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run("train", "--callback", f"code.py:{name}", "--output", "run")
