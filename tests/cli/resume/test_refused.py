"""What cannot be gone on with, or not so, is refused with the cause and the fix."""

from pathlib import Path
from typing import Any

import pytest

from phalanx.runs.lock import Lock
from tests.cli.resume.interrupted_runs import finished, interrupt, result, run
from tests.commands import Phalanx

__all__ = ["finished", "run"]


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        (["--seed", 4], "--seed 4: run was trained with 0, which cannot change on the way"),
        (["--output", "other"], "--output other: a training is gone on with where it is, in run"),
        (["--strategy", "single"], "trains on at most 1 rank, not on 2"),
        (["--epochs", "x"], "--epochs must be a whole number"),
        (["--config", "other.toml"], "--momentum 0.5: run was trained with none"),
    ],
    ids=str,
)
def test_refused_before_any_rank_starts(
    phalanx: Phalanx, run: Path, flags: list[Any], cause: str
) -> None:
    interrupt(run, after=9)
    (run.parent / "other.toml").write_text("momentum = 0.5\n")
    files = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    options = ("--resume", "run", "--ranks", 2, *flags)
    done = phalanx("train", *options, PHALANX_MPIEXEC="/nonexistent/mpiexec")
    assert done.returncode == 2, done.stderr
    assert cause in " ".join(done.stderr.split())
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == files


def test_fewer_epochs_than_there_were(phalanx: Phalanx, run: Path) -> None:
    interrupt(run, after=9)
    done = phalanx("train", "--resume", "run", "--epochs", 1)
    assert done.returncode == 2
    assert (
        "--epochs 1: the training has 1 epoch behind it, and is in another one: take 2 or more"
        in (done.stderr)
    )


def test_a_folder_in_use(phalanx: Phalanx, run: Path) -> None:
    interrupt(run, after=9)
    lock = Lock(run)
    done = phalanx("train", "--resume", "run", "--ranks", 2, PHALANX_MPIEXEC="/nonexistent/mpiexec")
    lock.free()
    assert done.returncode == 2
    assert "is training into this folder: wait for it" in done.stderr


def test_a_folder_of_something_else(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    done = phalanx("train", "--output", "mine", "--resume", "mine")
    assert done.returncode == 2
    assert "--output mine is not empty" in done.stderr
    done = phalanx("train", "--resume", "mine")
    assert "mine: has no config.json; is it the folder of a phalanx run?" in done.stderr


def test_other_samples(phalanx: Phalanx, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = [f"{one},{one * 7 % 10},{'ab'[one % 2]}\n" for one in range(40)]
    table.write_text("".join(["x,y,label\n", *rows]))
    flags = ("--dataset", "csv", "--data-dir", table, "--hidden", 4, "--epochs", 2)
    assert phalanx("train", *flags, "--output", "run").returncode == 0
    table.rename(tmp_path / "moved.csv")
    again = ("train", "--resume", "run", "--epochs", 3)
    assert phalanx(*again, "--data-dir", "moved.csv").returncode == 0
    table.write_text("".join(["x,y,label\n", *reversed(rows)]))
    done = phalanx("train", "--resume", "run", "--epochs", 4, "--data-dir", table)
    assert done.returncode == 2
    assert "run: was trained with training samples with the fingerprint " in done.stderr
    assert "go on with the data that it was begun with (--data-dir)" in done.stderr


CODE = """
from pathlib import Path
from torch import nn

Path("it-ran").touch()


def make(input_shape, classes, width=4):
    return nn.Sequential(nn.Linear(*input_shape, width), nn.Tanh(), nn.Linear(width, classes))
"""


def test_code_that_only_the_folder_names(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(CODE)
    flags = ("--dataset", "iris", "--model", "net.py:make", "--width", 6, "--epochs", 1)
    assert phalanx("train", *flags, "--output", "run").returncode == 0
    (tmp_path / "it-ran").unlink()
    done = phalanx("train", "--resume", "run", "--epochs", 2)
    assert done.returncode == 2
    assert "name it yourself with --model net.py:make, or say --trust-code" in done.stderr
    assert not (tmp_path / "it-ran").exists()
    for epochs, trust in ((2, ("--trust-code",)), (3, ("--model", "net.py:make"))):
        done = phalanx("train", "--resume", "run", "--epochs", epochs, *trust)
        assert done.returncode == 0, done.stderr
        assert result(tmp_path / "run")["epochs"] == epochs
