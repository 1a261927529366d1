"""`phalanx evaluate RUN` on the data of its training and on other data, from end to end."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.commands import Phalanx

ROWS = "1,red,x\n5,blue,y\n9,red,z\n"


@pytest.fixture
def run(phalanx: Phalanx, tmp_path: Path) -> str:
    """A run on a table of three classes."""
    (tmp_path / "training.csv").write_text("a,tint,kind\n" + ROWS * 20)
    trained = phalanx(
        *("train", "--dataset", "csv", "--data-dir", "training.csv", "--normalise"),
        *("--epochs", 20, "--learning-rate", 0.5, "--output", "run"),
    )
    assert trained.returncode == 0, trained.stderr
    return "run"


def test_other_data_is_evaluated_whole(phalanx: Phalanx, tmp_path: Path, run: str) -> None:
    (tmp_path / "other.csv").write_text("kind,a,tint\nz,9,red\nz,8.8,red\nz,9.1,red\n")
    done = phalanx("evaluate", run, "--data-dir", "other.csv", "--output", "metrics.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("csv: 3 samples, all of other.csv  loss ")
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["accuracy"] == 1
    assert metrics["classes"] == ["x", "y", "z"]
    answers = phalanx("predict", run, "--data-dir", "other.csv").stdout.splitlines()
    assert [line.split(",")[1] for line in answers] == ["class", "z", "z", "z"]


def test_the_data_of_the_training_keeps_its_test_part(
    phalanx: Phalanx, tmp_path: Path, run: str
) -> None:
    for given in ((), ("--data-dir", tmp_path / "training.csv"), ("--data-dir", ".")):
        assert phalanx("evaluate", run, *given).stdout.startswith("csv: 12 test samples  loss "), (
            given
        )
    whole = phalanx("evaluate", run, "--test-split", 0, "--metrics", "mse")
    assert whole.stdout.startswith("csv: 60 samples, all of training.csv  loss "), whole.stderr
    assert "  mse " in whole.stdout
    half = phalanx("evaluate", run, "--test-split", 0.5)
    assert half.stdout.startswith("csv: 30 test samples"), half.stderr


def test_what_the_run_does_not_know_is_refused(phalanx: Phalanx, tmp_path: Path, run: str) -> None:
    for text, message in (
        ("1,red,p\n5,blue,q\n", "'p' is no class of the training's rows, nor are q; those have x"),
        ("1,red,x\nbig,blue,y\n", "'big' is not a number"),
    ):
        (tmp_path / "other.csv").write_text("a,tint,kind\n" + text)
        done = phalanx("evaluate", run, "--data-dir", "other.csv")
        assert done.returncode == 2
        assert message in done.stderr
    unknown = phalanx("evaluate", run, "--metrics", "beauty")
    assert unknown.returncode == 2
    assert "unknown metric 'beauty'" in unknown.stderr
    other = phalanx("evaluate", run, "--hidden", 3)
    assert other.returncode == 2
    assert "leave out --hidden" in other.stderr


def test_a_table_of_test_rows(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.csv").write_text("a,tint,kind\n" + ROWS * 20)
    (tmp_path / "set" / "test.csv").write_text("a,tint,kind\n" + ROWS)
    trained = phalanx(
        *("train", "--dataset", "csv", "--data-dir", "set", "--epochs", 1, "--output", "run")
    )
    assert trained.returncode == 0, trained.stderr
    assert json.loads((tmp_path / "run" / "result.json").read_text())["test"]["count"] == 3
    assert phalanx("evaluate", "run").stdout.startswith("csv: 3 test samples  loss ")
    train = phalanx("evaluate", "run", "--data-dir", "set/train.csv")
    assert train.stdout.startswith("csv: 60 samples, all of set/train.csv"), train.stderr


def test_weights_that_are_no_numbers_answer_nothing(
    phalanx: Phalanx, tmp_path: Path, run: str
) -> None:
    file = tmp_path / run / "model.safetensors"
    weights = load_file(file)
    save_file({name: torch.full_like(one, math.nan) for name, one in weights.items()}, file)
    for command in ("predict", "evaluate"):
        done = phalanx(command, run, "--output", "answers")
        assert done.returncode == 2, done.stdout
        assert "its weights are not finite either" in done.stderr
        assert "--learning-rate" in done.stderr
        assert not (tmp_path / "answers").exists()
    save_file({name: torch.full_like(one, 1e30) for name, one in weights.items()}, file)
    done = phalanx("predict", run)
    assert done.returncode == 2
    assert "no finite outputs for 8 of 12 samples, the first of them at index 2" in done.stderr
    assert "samples take it beyond what float32 holds" in done.stderr
    assert done.stdout == ""
