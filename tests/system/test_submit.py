"""`phalanx submit` in a real Slurm: jobs done, followed, failed, and put back into the queue."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.commands import Phalanx, left_behind
from tests.system.slurm import PACKAGES, Slurm, running_slurm

pytestmark = pytest.mark.system(*PACKAGES)

TRAIN = ("train", "--dataset", "digits", "--epochs", "1", "--shards", "2", "--threads", "1")
#: A step takes as long as PAUSE says, and its weights do not know of it.
NET = """
import os, time
from torch import nn

class Net(nn.Linear):
    def __init__(self):
        super().__init__(8, 10)

    def forward(self, inputs):
        if self.training:
            time.sleep(float(os.environ.get("PAUSE", "0")))
        return super().forward(inputs)
"""
LONG = (
    *("--dataset", "synthetic", "--shape", "8", "--samples", "2048", "--batch-size", "8"),
    *("--model", "net.py:Net", "--shards", "2", "--threads", "1"),
)


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    # A job that is out of time is told so, and ended a minute later: machines may be slow.
    with running_slurm("OverTimeLimit=1") as slurm:
        yield slurm


def submit(slurm: Slurm, folder: Path, *arguments: str) -> "CompletedProcess[str]":
    """Submit a command and wait for its end."""
    folder.mkdir(exist_ok=True)
    return slurm.to_its_end("phalanx", "submit", "--wait", *arguments, folder=folder)


def weights_in(said: str) -> str:
    (digest,) = re.findall(r"^weights sha256: (\w{64})$", said, re.M)
    return str(digest)


def test_a_training_is_done_and_followed(slurm: Slurm, tmp_path: Path, phalanx: Phalanx) -> None:
    ours = submit(slurm, tmp_path / "a folder", "--launch", "phalanx", *TRAIN, "--ranks", "2")
    theirs = submit(slurm, tmp_path / "theirs", "--ntasks", "2", *TRAIN)
    for done in (ours, theirs):
        assert done.returncode == 0, done.stdout + done.stderr
        assert "on 2 ranks" in done.stdout
        assert done.stderr.splitlines()[-1].endswith("COMPLETED")
    assert weights_in(ours.stdout) == weights_in(theirs.stdout)
    assert weights_in(ours.stdout) == weights_in(phalanx(*TRAIN).stdout)
    (run,) = (tmp_path / "theirs" / "runs").iterdir()
    assert re.fullmatch(r"phalanx-train-\d+", run.name)
    job = run.name.rpartition("-")[2]
    script = slurm.run("scontrol", "write", "batch_script", job, "-")
    assert "exec srun --mpi=pmix phalanx train" in script
    assert left_behind(tmp_path) == []


def test_a_script_that_fails_has_its_exit_code(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("import sys\nprint(sys.argv[1:], flush=True)\nsys.exit(7)\n")
    awkward = ("it's", 'a "word"', "two\nlines", "$HOME")
    done = submit(slurm, tmp_path, "run", "-n", "1", "python", "fails.py", *awkward)
    assert done.returncode == 7, done.stdout + done.stderr
    assert str(list(awkward)) in done.stdout
    assert "FAILED (NonZeroExitCode)" in done.stderr


def test_what_slurm_refuses_is_said(slurm: Slurm, tmp_path: Path) -> None:
    done = submit(slurm, tmp_path, "--partition", "nowhere", "train")
    assert done.returncode == 2
    assert "sbatch refuses this job: " in done.stderr
    assert "invalid partition" in done.stderr


def test_jobs_go_on_over_the_end_of_their_time(
    slurm: Slurm, tmp_path: Path, phalanx: Phalanx
) -> None:
    """A training and a sweep of two, side by side: their first turn would take three minutes."""
    slow = "[ $SLURM_RESTART_COUNT ] || export PAUSE=0.25"
    job = ("--time", "1", "--grace", "5s", "--setup", slow, "--ntasks", "2")
    commands = {
        "trained": ("train", *LONG, "--epochs", "3"),
        "swept": ("sweep", *LONG, "--epochs", "1", "--vary", "ranks=1,2", "--output", "kept"),
    }
    found: dict[str, CompletedProcess[str]] = {}

    def run(name: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.py").write_text(NET)
        found[name] = submit(slurm, tmp_path / name, *job, *commands[name])

    threads = [threading.Thread(target=run, args=(name,)) for name in commands]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    for done in found.values():
        assert done.returncode == 0, done.stdout + done.stderr
        assert "is back in the queue, from where it goes on" in done.stdout
        assert done.stderr.count("runs\n") >= 2
    (tmp_path / "net.py").write_text(NET)
    undisturbed = phalanx("train", *LONG, "--epochs", 3)
    assert weights_in(found["trained"].stdout) == weights_in(undisturbed.stdout)
    rows = json.loads((tmp_path / "swept" / "kept" / "table.json").read_text())["rows"]
    assert [row["status"] for row in rows] == ["done", "done"]
    assert left_behind(tmp_path) == []


def test_who_follows_a_cancelled_job_learns_of_it(slurm: Slurm, tmp_path: Path) -> None:
    endless = ("train", "--dataset", "synthetic", "--shape", "8", "--epochs", "1000000")
    found: list[CompletedProcess[str]] = []
    following = threading.Thread(target=lambda: found.append(submit(slurm, tmp_path, *endless)))
    following.start()

    def said() -> str:
        return "".join(one.read_text() for one in tmp_path.glob("phalanx-train-*.out"))

    slurm.wait(lambda: "epoch 1/" in said(), seen=said)
    (output,) = tmp_path.glob("phalanx-train-*.out")
    slurm.run("scancel", output.stem.rpartition("-")[2])
    following.join()
    (done,) = found
    assert done.returncode == 143, done.stderr
    assert "ended by SIGTERM" in done.stdout
    assert "was cancelled, and is not put back into the queue" in done.stdout
    assert "CANCELLED" in done.stderr.splitlines()[-1]
    assert left_behind(tmp_path) == []
