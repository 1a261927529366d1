"""Code that a run's folder names is run only if the user names it, or trusts the folder."""

import json
from pathlib import Path

import pytest

from phalanx.cli.app import app
from phalanx.errors import UsageError

NET = """
from pathlib import Path
from torch import nn

def make(width: int = 4):
    Path("code-has-run").touch()
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, 10))
"""
DATA = """
from phalanx import data

def load():
    return data.load("digits")
"""
EXPORT = ("export", "run", "--format", "torch", "--output", "model.pt2")


def run(*arguments: str) -> None:
    assert not app(list(arguments), standalone_mode=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with a model and a data set of one's own, as it might come from somebody else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "own.py").write_text(DATA)
    code = ("--model", "net.py:make", "--dataset", "own.py:load")
    run("train", *code, "--width", "3", "--epochs", "1", "--output", "run")
    (tmp_path / "code-has-run").unlink()
    return tmp_path


@pytest.mark.parametrize("command", [("evaluate", "run"), ("predict", "run"), EXPORT], ids=" ".join)
def test_a_downloaded_folder_is_no_code(folder: Path, command: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"names code as its model.*--model net\.py:make.*--trust"):
        run(*command)
    assert not (folder / "code-has-run").exists()
    run(*command, "--trust-code")
    assert (folder / "code-has-run").exists()


def test_the_users_own_flags_name_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "net.py").rename(folder / "moved.py")
    model = ("--model", "moved.py:make")
    run(*EXPORT, *model)
    with pytest.raises(UsageError, match=r"names code as its dataset.*--dataset own\.py:load"):
        run("predict", "run", *model)
    run("predict", "run", *model, "--dataset", "own.py:load", "--output", "answers.csv")
    run("evaluate", "run", *model, "--dataset", "own.py:load")
    assert "accuracy" in capsys.readouterr().out


def test_modules_are_code_as_well(folder: Path) -> None:
    config = json.loads((folder / "run" / "config.json").read_text())
    config["settings"]["model"] = "net:make"
    (folder / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="names code as its model"):
        run(*EXPORT)


def test_a_run_without_code_has_nothing_to_name(folder: Path) -> None:
    run("train", "--epochs", "1", "--output", "plain")
    for command in ("predict", "evaluate"):
        with pytest.raises(UsageError, match="leave out --model"):
            run(command, "plain", "--model", "net.py:make")
    with pytest.raises(UsageError, match="--trust-code is about the folder of a run"):
        run("evaluate", "--weights", "plain/model.safetensors", "--trust-code")
