"""A run folder belongs to one training."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from phalanx.errors import RunError, UsageError
from phalanx.inference.answer_kinds import ClassAnswers
from phalanx.inference.answers import Answers
from phalanx.runs.folder import RunFolder
from phalanx.runs.lock import Lock
from phalanx.settings.table import Settings
from tests.commands import Phalanx


def folder(path: Path) -> RunFolder:
    return RunFolder.create(Settings(output=path))


def test_a_second_training_is_refused(tmp_path: Path) -> None:
    run = folder(tmp_path / "run")
    with pytest.raises(RunError, match=rf"run: process {os.getpid()} on \S+ is training into"):
        folder(tmp_path / "run")
    run.close()
    assert os.listdir(run.path) == []
    folder(tmp_path / "run").close()


def test_one_that_came_and_went_meanwhile_counts(tmp_path: Path) -> None:
    """Both found the folder empty; the first was done before the second began to write."""
    run = folder(tmp_path / "run")
    run.write_result({"loss": 1.0})
    run.close()
    with pytest.raises(UsageError, match="run is not empty"):
        folder(tmp_path / "run")
    assert os.listdir(run.path) == ["result.json"]


HOLDER = """
import sys
from pathlib import Path
from phalanx.runs.lock import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_dead_trainings_lock_is_free(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(RunError, match=f"process {process.pid} on"):
            Lock(tmp_path)
        process.kill()
    assert os.listdir(tmp_path) == [".lock"]
    folder(tmp_path).close()  # which does not count as something in the folder
    assert os.listdir(tmp_path) == []


def test_a_lock_that_is_removed_while_another_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Lock(tmp_path)
    frees = iter([first.free])
    monkeypatch.setattr(Lock, "_lock", lambda *_: next(frees, lambda: None)())
    second = Lock(tmp_path)
    assert (tmp_path / ".lock").read_text().startswith(f"{os.getpid()} on ")
    second.free()


def test_two_trainings_with_one_output(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    lock = Lock(tmp_path / "run")
    flags = ("--dataset", "iris", "--epochs", 1, "--hidden", 4, "--output", "run")
    done = phalanx("train", *flags)
    assert done.returncode == 2
    who = f"process {os.getpid()} on {socket.gethostname()}"
    assert done.stderr == (
        f"RunError: run: {who} is training into this folder: wait for it, or name another one "
        "with --output\n"
    )
    assert os.listdir(tmp_path / "run") == [".lock"]
    lock.free()
    assert phalanx("train", *flags).returncode == 0
    files = {"config.json", "history.csv", "checkpoints", "model.safetensors", "result.json"}
    assert set(os.listdir(tmp_path / "run")) == files


def test_nothing_is_written_through_links(tmp_path: Path) -> None:
    """Names beside a file that are easy to guess lead nowhere."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("config.json.partial", "answers.csv.partial", "result.json.partial"):
        (tmp_path / name).symlink_to(precious)
    run = RunFolder(tmp_path)
    run.write_result({"loss": 1.0})
    run.close()
    Answers(torch.zeros(1, 2), ClassAnswers(("a", "b"))).save(tmp_path / "answers.csv")
    assert precious.read_text() == "mine"
