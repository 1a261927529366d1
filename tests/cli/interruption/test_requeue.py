"""What a Slurm job does about its next turn: by what Slurm says of it, and how far it got."""

import os
import signal
import stat
from pathlib import Path

import pytest

from phalanx.cli.interruption import what_is_left
from phalanx.cli.requeue import Requeue, run_of_last_turn
from tests.commands import Phalanx

#: Answers as Slurm's own does, and writes down what it is asked for.
SCONTROL = """#!/bin/sh
echo "$@" >> "$ASKED"
case "$1" in
  requeue) [ "$REFUSES" ] && { echo "Requested operation is presently disabled" >&2; exit 1; } ;;
  *) echo "JobId=7 JobName=train $STATE" ;;
esac
exit 0
"""
CANCELLED = "JobState=COMPLETING Reason=None PreemptTime=None Restarts=0"


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with what Slurm was asked for."""
    program = tmp_path / "bin" / "scontrol"
    program.parent.mkdir()
    program.write_text(SCONTROL)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr("phalanx.cli.requeue.ignore", lambda number: None)
    return tmp_path / "asked"


def go_further(run: Path, step: int = 12) -> None:
    folder = run / "checkpoints" / f"step-{step:09}"
    folder.mkdir(parents=True)
    position = f'{{"epoch": 2, "step": {step}, "step_in_epoch": 4}}'
    (folder / "checkpoint.json").write_text(f'{{"values": {{"position": {position}}}}}')


@pytest.mark.parametrize(
    ("state", "said", "requeued"),
    [
        ("JobState=RUNNING Reason=None Restarts=0", "is back in the queue", True),
        ("JobState=COMPLETING Reason=TimeLimit Restarts=0", "is back in the queue", True),
        (
            "JobState=COMPLETING Reason=None PreemptTime=2026-11-17 Restarts=0",
            "is back in the queue",
            True,
        ),
        ("JobState=COMPLETING Reason=None Restarts=1", "Slurm has put it back", False),
        (CANCELLED, "was cancelled, and is not put back", False),
    ],
)
def test_a_job_goes_on_unless_its_user_has_cancelled_it(
    asked: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: str,
    said: str,
    requeued: bool,
) -> None:
    monkeypatch.setenv("STATE", state)
    requeue = Requeue(tmp_path / "run")
    go_further(tmp_path / "run")
    requeue.after(signal.SIGTERM)
    assert capsys.readouterr().err.startswith(f"job 7: {said}")
    assert ("requeue 7" in asked.read_text()) == requeued


def test_a_turn_that_got_no_further_is_the_last_one(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    go_further(tmp_path / "run")
    Requeue(tmp_path / "run").after(signal.SIGUSR1)
    assert "not put back into the queue, because it got no further" in capsys.readouterr().err
    assert not asked.exists()


def test_a_ctrl_c_is_a_persons(
    asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    requeue = Requeue(tmp_path / "run")
    go_further(tmp_path / "run")
    requeue.after(signal.SIGINT)
    assert capsys.readouterr().err == ""
    assert not asked.exists()


def test_what_slurm_refuses_is_said(
    asked: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("STATE", "JobState=RUNNING Restarts=0")
    monkeypatch.setenv("REFUSES", "1")
    requeue = Requeue(tmp_path / "run")
    go_further(tmp_path / "run")
    requeue.after(signal.SIGTERM)
    assert "could not be put back into the queue: Requested operation" in capsys.readouterr().err
    assert "requeue 7" in asked.read_text()


def test_only_a_later_turn_goes_on_in_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
    assert run_of_last_turn(Path("run")) is None
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    assert run_of_last_turn(Path("run")) == Path("run")


@pytest.mark.parametrize(
    ("flags", "job", "message"),
    [
        (("--output", "run"), {}, "--requeue is for the jobs of Slurm"),
        ((), {"SLURM_JOB_ID": "7"}, "name the folder that every turn goes on in with --output"),
        (
            ("--output", "run", "--checkpoint-every", "never"),
            {"SLURM_JOB_ID": "7"},
            "leave out --checkpoint-every never",
        ),
    ],
)
def test_where_no_turn_could_follow_it_is_refused(
    phalanx: Phalanx, tmp_path: Path, flags: tuple[str, ...], job: dict[str, str], message: str
) -> None:
    done = phalanx("train", "--requeue", *flags, **job)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_folder_says_what_it_keeps_and_how_to_go_on(tmp_path: Path) -> None:
    run = tmp_path / "a run"
    run.mkdir()
    assert what_is_left(str(run)) == ""
    (run / "history.csv").write_text("epoch,loss\n1,0.5\n2,0.25\n")
    kept = f"{run} keeps history.csv (2 epochs)"
    assert what_is_left(str(run)) == f"{kept}; there is no checkpoint to go on from"
    go_further(run, 1234)
    assert what_is_left(str(run), ranks=3) == (
        f"{kept}, a checkpoint of step 1,234, in epoch 3; "
        f"go on with: phalanx train --resume '{run}' --ranks 3"
    )
    (run / "checkpoints" / "step-000001234" / "checkpoint.json").write_text("{")
    assert "a checkpoint step-000001234; go on" in what_is_left(str(run))
