"""What cannot be written: one line, never a traceback, and a trained model is not lost."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from phalanx.cli.app import app
from phalanx.errors import PhalanxError
from phalanx.runs.folder import RunFolder
from phalanx.runs.weights import load_weights
from phalanx.runs.written import WrittenRun
from phalanx.settings.table import Settings
from tests.cli.interruption.waiting import SAMPLES, go_on, until_it_waits, waits
from tests.commands import Phalanx, end_of


def no_space(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device", "/somewhere/x.partial")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and another for temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def a_run(path: Path) -> WrittenRun:
    path.mkdir()
    run = WrittenRun(RunFolder(path))
    run.write_config(Settings(), ranks=1, threads=1, strategy="single")
    run.add_epoch({"epoch": 1, "loss": 0.5})
    return run


def check_moved(run: WrittenRun, model: nn.Linear, folder: Path) -> None:
    assert run.is_elsewhere
    assert run.path.parent == folder
    assert (run.path / "history.csv").read_text().splitlines() == ["epoch,loss", "1,0.5", "2,0.25"]
    assert json.loads((run.path / "config.json").read_text())["settings"]["ranks"] == 1
    again = nn.Linear(3, 2)
    load_weights(again, run.path / "model.safetensors")
    assert torch.equal(again.weight, model.weight)


def test_a_run_whose_folder_is_gone_goes_on_elsewhere(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run, model = a_run(here / "run"), nn.Linear(3, 2)
    (here / "run").rename(here / "moved")
    run.add_epoch({"epoch": 2, "loss": 0.25})
    run.save_weights(model)
    check_moved(run, model, here / "temporary")
    assert f"the run is in {run.path}" in caplog.text


def test_a_run_on_a_disk_that_fills_up_goes_on_elsewhere(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, model = a_run(here / "run"), nn.Linear(3, 2)
    run.add_epoch({"epoch": 2, "loss": 0.25})
    write = Path.replace

    def full(path: Path, target: Path) -> Path:
        if target.parent == here / "run":
            no_space()
        return write(path, target)

    monkeypatch.setattr(Path, "replace", full)
    run.save_weights(model)
    check_moved(run, model, here / "temporary")


def test_nowhere_to_write_is_a_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(here / "run")
    (here / "run").rename(here / "moved")
    monkeypatch.setattr("tempfile.mkdtemp", no_space)
    with pytest.raises(PhalanxError, match=r"run: cannot be written \(No such file or directory\)"):
        run.add_epoch({"epoch": 2, "loss": 0.25})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert not app(["train", "--epochs", "1", "--output", str(folder)], standalone_mode=False)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("predict", "--output", "answers.csv"),
        ("evaluate", "--output", "metrics.json"),
        ("export", "--format", "torch", "--output", "model.pt2"),
        ("compare", "--json", "table.json"),
        ("compare", "--csv", "table.csv"),
    ],
    ids=" ".join,
)
def test_results_on_a_full_disk(
    here: Path, trained: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    for verb in ("open", "write_text", "write_bytes", "replace"):
        monkeypatch.setattr(Path, verb, _unless_new(getattr(Path, verb), here))
    name, *flags = command
    with pytest.raises(PhalanxError, match=r"cannot be written: No space left on device") as caught:
        app([name, str(trained), *flags], standalone_mode=False)
    assert flags[-1] in str(caught.value)
    assert caught.value.exit_code == 1


def _unless_new(verb: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """A path's verb as it is on a disk that is full where this folder is."""

    def run(path: Path, *arguments: Any, **named: Any) -> Any:
        reads = verb.__name__ == "open" and arguments[:1] in ((), ("r",), ("rb",))
        if path.absolute().parent == folder and not reads:
            no_space()
        return verb(path, *arguments, **named)

    return run


def test_a_training_that_may_write_no_more_than_a_little(process: Phalanx, tmp_path: Path) -> None:
    """Files of 100 kB at most, in any folder, and weights of 300 kB: a line, no traceback."""
    limit = ("prlimit", "--fsize=100000")
    done = process("train", "--epochs", 1, "--hidden", 1000, before=limit)
    assert done.returncode == 1
    warning, error = done.stderr.splitlines()
    assert warning.startswith("the checkpoint at step 23 could not be written (File too large)")
    assert "digits-mlp-1: cannot be written (" in error
    assert "File too large" in error


def test_a_folder_that_is_removed_while_a_training_goes_on(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    asked = (*SAMPLES, *waits(tmp_path, "pass 70"), "--epochs", 4)
    process = start("train", *asked, "--output", "run", "--trace", "trace/trace.json")
    until_it_waits(tmp_path, process)
    (tmp_path / "run").rename(tmp_path / "away")
    go_on(tmp_path)
    output, errors = end_of(process)
    assert process.returncode == 1, errors
    moved, warning = errors.splitlines()
    assert "checkpoint at step 128 could not be written (No such file or directory)" in warning
    named = Path(moved.split()[-1])
    assert f"run: {named}" in output
    assert (named / "model.safetensors").exists()
    assert len((named / "history.csv").read_text().splitlines()) == 5
    for path in named.iterdir():
        path.unlink()
    named.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of one's own needs root")
def test_a_read_only_target_is_refused_at_once(here: Path, trained: Path) -> None:
    import ctypes

    mount, flags = ctypes.CDLL(None, use_errno=True), 1  # MS_RDONLY
    (here / "disk").mkdir()
    if mount.mount(b"none", str(here / "disk").encode(), b"tmpfs", flags, None) != 0:
        pytest.skip("no file system can be mounted here")
    try:
        for name, flag in (
            ("predict", "--output"),
            ("evaluate", "--output"),
            ("compare", "--json"),
        ):
            with pytest.raises(PhalanxError, match="disk/x: is not yours to write"):
                app([name, str(trained), flag, "disk/x"], standalone_mode=False)
    finally:
        mount.umount(str(here / "disk").encode())


def test_names_that_are_too_long(here: Path, trained: Path) -> None:
    long = "x" * 300
    for command in (
        ("train", "--output", long),
        ("train", "--trace", long),
        ("predict", str(trained), "--output", long),
    ):
        with pytest.raises(PhalanxError, match="File name too long"):
            app(list(command), standalone_mode=False)
