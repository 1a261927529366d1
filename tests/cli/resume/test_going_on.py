"""`phalanx train --resume`: an interrupted training goes on as if nobody had interrupted it."""

import csv
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.checkpoints.folders import written
from tests.cli.resume.interrupted_runs import TRAINING, finished, history, interrupt, result, run
from tests.commands import Phalanx, left_behind

__all__ = ["finished", "run"]


def without_times(run: Path) -> list[dict[str, str]]:
    times = ("seconds", "samples_per_second")
    return [{name: one for name, one in row.items() if name not in times} for row in history(run)]


def test_on_other_ranks_with_another_strategy(phalanx: Phalanx, finished: Path, run: Path) -> None:
    """Inside the second epoch, and then inside the third: the same weights, the same history."""
    for turn, (after, flags) in enumerate(
        ((9, ("--ranks", 3)), (15, ("--ranks", 2, "--strategy", "allreduce"))), start=2
    ):
        interrupt(run, after=after)
        done = phalanx("train", "--resume", "run", *flags)
        assert done.returncode == 0, done.stderr
        assert f"goes on from step 3 of epoch {turn}\n" in done.stdout
        assert f" in {turn} turns " in done.stdout
        ours, theirs = result(run), result(finished)
        for name in ("weights_sha256", "test", "test_before", "epochs"):
            assert ours[name] == theirs[name], name
        assert ours["turns"] == turn
        assert without_times(run) == without_times(finished)
    config = json.loads((run / "config.json").read_text())["settings"]
    assert (config["ranks"], config["strategy"], config["epochs"]) == (2, "allreduce", 4)
    with (run / "networks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["epoch"], row["rank"]) for row in rows] == [
        *(("2", rank) for rank in "012"),  # the second turn's
        *((epoch, rank) for epoch in "34" for rank in "01"),
    ]


def test_one_that_is_killed(
    phalanx: Phalanx,
    start: Callable[..., subprocess.Popen[str]],
    finished: Path,
    tmp_path: Path,
) -> None:
    """kill -9 of the launcher, in the middle of a checkpoint or between two."""
    first = start("train", *TRAINING, "--ranks", 2, "--output", "run")
    kept, deadline = tmp_path / "run" / "checkpoints", time.monotonic() + 120
    while not written(kept) and time.monotonic() < deadline:
        time.sleep(0.01)
    first.kill()
    first.wait()
    assert left_behind(tmp_path) == []
    if (tmp_path / "run" / "result.json").exists():  # it was faster
        interrupt(tmp_path / "run", after=9)
    done = phalanx("train", "--resume", "run", "--ranks", 1)
    assert done.returncode == 0, done.stderr
    assert result(tmp_path / "run")["weights_sha256"] == result(finished)["weights_sha256"]
    assert without_times(tmp_path / "run") == without_times(finished)


def test_a_finished_training(phalanx: Phalanx, finished: Path, run: Path) -> None:
    before = {path: path.read_bytes() for path in run.glob("*.*")}
    done = phalanx("train", "--resume", "run", "--ranks", 2, PHALANX_MPIEXEC="/nonexistent/mpiexec")
    assert done.returncode == 0
    assert done.stdout == (
        "run: this training has come to its end after 4 epochs: train on with --epochs 5 or more\n"
    )
    assert {path: path.read_bytes() for path in run.glob("*.*")} == before
    done = phalanx("train", "--resume", "run", "--epochs", 5)
    assert done.returncode == 0, done.stderr
    assert (result(run)["epochs"], result(run)["turns"]) == (5, 2)
    assert [row["epoch"] for row in history(run)] == ["1", "2", "3", "4", "5"]
    assert without_times(run)[:4] == without_times(finished)
    rate = 0.001 * (1 - 0.809017) / 2  # of a cosine over five epochs, after four
    assert float(history(run)[4]["learning_rate"]) == pytest.approx(rate, rel=1e-4)


def test_interrupted_in_its_last_test(phalanx: Phalanx, finished: Path, run: Path) -> None:
    """All epochs are behind it: nothing is trained, and the result is there."""
    interrupt(run, after=24)
    done = phalanx("train", "--resume", "run")
    assert done.returncode == 0, done.stderr
    assert "goes on from the end of its last epoch\n" in done.stdout
    assert "epoch 4/4" not in done.stdout
    assert result(run)["weights_sha256"] == result(finished)["weights_sha256"]
    assert result(run)["samples_per_second"] > 0
    assert without_times(run) == without_times(finished)


def test_a_damaged_checkpoint_is_passed_over(phalanx: Phalanx, finished: Path, run: Path) -> None:
    interrupt(run, after=12)
    file = run / "checkpoints" / "step-000000012" / "rank-0.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    done = phalanx("train", "--resume", "run")
    assert done.returncode == 0, done.stderr
    assert "step-000000012/rank-0.safetensors" in done.stderr
    assert "the one before, step-000000009, is taken" in done.stderr
    assert result(run)["weights_sha256"] == result(finished)["weights_sha256"]


def test_no_checkpoint_is_whole(phalanx: Phalanx, run: Path) -> None:
    """Nobody is told to go on from what cannot be gone on from."""
    interrupt(run, after=12)
    for file in (run / "checkpoints").glob("*/rank-0.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    done = phalanx("train", "--resume", "run", "--ranks", 2)
    assert done.returncode == 2
    assert "rank-0.safetensors" in done.stderr
    assert "go on with" not in done.stderr


def test_another_learning_rate(phalanx: Phalanx, run: Path) -> None:
    """It counts from now on, also if this turn is interrupted before its first checkpoint."""
    interrupt(run, after=9)
    rates = [float(row["learning_rate"]) for row in history(run)]
    done = phalanx("train", "--resume", "run", "--learning-rate", 0.003)
    assert done.returncode == 0, done.stderr
    now = [float(row["learning_rate"]) for row in history(run)]
    assert now == pytest.approx([rates[0], *(3 * one for one in rates[1:])])
    once = result(run)["weights_sha256"]
    interrupt(run, after=9)
    assert phalanx("train", "--resume", "run").returncode == 0
    assert result(run)["weights_sha256"] == once


def test_weights_of_an_interrupted_training(phalanx: Phalanx, run: Path) -> None:
    shutil.copytree(run, run.with_name("whole"))
    interrupt(run, after=24)
    done, whole = (phalanx("evaluate", name) for name in ("run", "whole"))
    assert done.stdout == whole.stdout
    assert whole.stderr == ""
    assert done.stderr == (
        "run: this training has not come to its end: its newest checkpoint is used\n"
    )
    done, whole = (phalanx("predict", name) for name in ("run", "whole"))
    assert done.stdout == whole.stdout
    done = phalanx("export", "run")
    assert done.returncode == 2
    assert "no result.json yet: `phalanx train --resume run` goes on with it" in done.stderr


def test_a_training_that_stopped(phalanx: Phalanx, tmp_path: Path) -> None:
    flags = ("--dataset", "iris", "--hidden", 4, "--epochs", 9, "--stop-at", "loss=100")
    assert phalanx("train", *flags, "--output", "run").returncode == 0
    done = phalanx("train", "--resume", "run", "--epochs", 12)
    assert done.stdout == (
        "run: this training has come to its end after 1 epoch (loss has reached 100): train on "
        "with another --patience or --stop-at\n"
    )
    assert phalanx("train", "--resume", "run", "--stop-at", "loss=0").returncode == 0
    assert result(tmp_path / "run")["epochs"] == 9


def test_one_command_that_begins_or_goes_on(phalanx: Phalanx, tmp_path: Path) -> None:
    """For a job that is put back into the queue: the same line every time."""
    command = ("train", *TRAINING, "--output", "run", "--resume", "run")
    done = phalanx(*command)
    assert done.returncode == 0, done.stderr
    once = result(tmp_path / "run")
    interrupt(tmp_path / "run", after=9)
    done = phalanx(*command)
    assert "goes on from step 3 of epoch 2\n" in done.stdout
    assert result(tmp_path / "run")["weights_sha256"] == once["weights_sha256"]
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    (tmp_path / "run" / "result.json").unlink()
    done = phalanx(*command)
    assert "goes on" not in done.stdout
    assert result(tmp_path / "run")["turns"] == 1
    assert len(history(tmp_path / "run")) == 4
    assert "has come to its end" in phalanx(*command).stdout


def test_never(phalanx: Phalanx, tmp_path: Path) -> None:
    flags = ("--dataset", "iris", "--hidden", 4, "--epochs", 1, "--checkpoint-every", "never")
    assert phalanx("train", *flags, "--output", "run").returncode == 0
    assert not (tmp_path / "run" / "checkpoints").exists()
    (tmp_path / "run" / "result.json").unlink()
    done = phalanx("train", "--resume", "run")
    assert done.returncode == 2
    assert done.stderr == (
        "RunError: run: has no checkpoint to go on from: start again with its settings, "
        "`phalanx train --config run/config.json`\n"
    )
