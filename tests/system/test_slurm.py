"""Trainings in a real Slurm: as docs/slurm.md has them, without MPI, cancelled and out of time."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.commands import PATIENCE, Phalanx, environment, left_behind, processes_in
from tests.system.slurm import PACKAGES, Job, NoSlurmError, Slurm, running_slurm

pytestmark = pytest.mark.system(*PACKAGES)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "slurm.md"
#: The same as what the page has, in small.
SMALL = "--threads 1 --epochs 1 --shards 2"
ENDLESS = "train --dataset synthetic --shape 8 --samples 1000000 --batch-size 1 --threads 1"
#: The first line that a training shows by itself.
TRAINING = "epoch 1/"
#: Without `exec` a bash would end at the signal, and with it Slurm whatever else is in the script.
OURS = f"#!/bin/bash\nexec phalanx {ENDLESS} --ranks 2\n"
THEIRS = f"#!/bin/bash\nexec srun --mpi=pmix phalanx {ENDLESS}\n"
#: A step takes as long as PAUSE says, and its weights do not know of it.
NET = """
import os, time
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 10))

    def forward(self, inputs):
        if self.training:
            time.sleep(float(os.environ.get("PAUSE", "0")))
        return super().forward(inputs)
"""
IN_TURNS = (
    "train --dataset synthetic --shape 8 --samples 2048 --batch-size 8 --model net.py:Net "
    "--epochs 4 --shards 2 --threads 1 --optimizer adam"
)


def slow_for(turns: int) -> str:
    """The beginning of a script whose first turns would take three minutes by themselves."""
    return f"#!/bin/bash\n[ ${{SLURM_RESTART_COUNT:-0}} -ge {turns} ] || export PAUSE=0.2\n"


@pytest.fixture(scope="module")
def slurm(long_jobs: "LongJobs") -> Iterator[Slurm]:
    with running_slurm() as slurm:
        yield slurm


@dataclass(frozen=True)
class LongJobs:
    """What waits for Slurm to look at the time, which it does every half a minute: begun before
    all other tests, in a Slurm of its own, and looked at after them."""

    folder: Path
    #: By our own launcher, and by srun.
    told: tuple[Job, ...]
    in_turns: tuple[Job, ...]


@pytest.fixture(scope="module")
def long_jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongJobs]:
    folder = tmp_path_factory.mktemp("long")
    (folder / "net.py").write_text(NET)
    options = ("-n2", "--time=1", "--open-mode=append")
    # A job that is out of time is told so, and ended a minute later: machines may be slow.
    with running_slurm("OverTimeLimit=1") as slurm:
        ours = slurm.sbatch(
            f"{slow_for(1)}exec phalanx {IN_TURNS} --ranks 2 --output ours --requeue\n",
            *(*options, "--signal=B:USR1@5"),
            folder=folder,
        )
        theirs = slurm.sbatch(
            f"{slow_for(1)}srun --mpi=pmix phalanx {IN_TURNS} --output theirs --requeue\n",
            *(*options, "--signal=USR1@5"),
            folder=folder,
        )
        told = tuple(
            slurm.sbatch(
                f"{slow_for(1)}exec {how} {IN_TURNS} {flags}\n",
                *("-n2", "--time=10", f"--signal={whom}USR1@110"),
                folder=folder,
            )
            for how, flags, whom in (
                ("phalanx", "--ranks 2", "B:"),
                ("srun --mpi=pmix phalanx", "", ""),
            )
        )
        for job in told:  # it tells a step that is there by then
            job.until(TRAINING)
            job.limit(minutes=2)
        yield LongJobs(folder, told, (ours, theirs))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The test's own, where the page's commands find their file."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def in_the_page() -> str:
    """The batch script, in small."""
    (script,) = re.findall(r"^```bash\n(#!.*?)^```$", PAGE.read_text(), re.M | re.S)
    for large, small in (
        ("ntasks=8", "ntasks=2"),
        ("cpus-per-task=4", "cpus-per-task=1"),
        ("--threads 4", SMALL),
    ):
        assert large in script
        script = script.replace(large, small)
    return str(script)


def weights_in(said: str) -> str:
    (digest,) = re.findall(r"^weights sha256: (\w{64})$", said, re.M)
    return str(digest)


def test_ranks_of_srun_and_of_our_own_give_the_weights_of_one_process(
    slurm: Slurm, folder: Path, phalanx: Phalanx
) -> None:
    command = f"train --config examples/settings.toml {SMALL}"
    script = in_the_page()
    line = next(one for one in script.splitlines() if one.startswith("srun --mpi=pmix "))
    assert line.endswith(f" phalanx {command}")
    assert "`exec phalanx train --ranks 8 …`" in PAGE.read_text()
    jobs = [
        slurm.sbatch(one, folder=folder)
        for one in (script, script.replace(line, f"exec phalanx {command} --ranks 2"))
    ]
    said = [phalanx(*command.split()).stdout, *(job.end() for job in jobs)]
    said.append(
        slurm.srun("--mpi=pmix", "-n", "2", "phalanx", *command.split(), folder=folder).stdout
    )
    assert ["on 2 ranks" in one for one in said] == [False, True, True, True]
    assert len({weights_in(one) for one in said}) == 1
    assert [job.ask("ExitCode") for job in jobs] == ["0:0", "0:0"]
    assert left_behind(folder) == []


def test_srun_without_mpi_is_noticed(slurm: Slurm, folder: Path) -> None:
    done = slurm.srun("-n", "2", "phalanx", "train", "--dataset", "digits", folder=folder)
    assert done.returncode == 3
    assert done.stderr.count("srun started 2 tasks without MPI") == 1
    assert "start them with `srun --mpi=pmix …`" in done.stderr
    assert not (folder / "runs").exists()


def test_a_cancelled_job_keeps_a_checkpoint_and_leaves_no_process(
    slurm: Slurm, folder: Path
) -> None:
    jobs = [slurm.sbatch(script, "-n2", folder=folder) for script in (OURS, THEIRS)]
    for job in jobs:
        job.until(TRAINING)
        job.cancel()
    said = [job.end() for job in jobs]
    assert [job.ask("JobState") for job in jobs] == ["CANCELLED", "CANCELLED"]
    for one in said:
        assert one.count("SIGTERM: finishing the step and writing a checkpoint") == 1
        assert re.search(r"ended by SIGTERM: \S+ keeps .*, a checkpoint of step [\d,]+, in", one)
        assert re.search(r"go on with: phalanx train --resume runs/synthetic-mlp-\d", one)
        assert "Traceback" not in one
    assert left_behind(folder) == []


def test_a_job_that_is_pushed_aside_or_whose_node_fails_goes_on_where_it_was(
    slurm: Slurm, folder: Path, phalanx: Phalanx
) -> None:
    """Slurm itself puts both back into the queue; the second has its last checkpoint alone."""
    (folder / "net.py").write_text(NET)
    command = f"exec phalanx {IN_TURNS} --ranks 2 --output run --requeue --checkpoint-every 50\n"
    script = slow_for(2) + command
    job = slurm.sbatch(script, "-n2", "--partition=low", "--open-mode=append", folder=folder)
    job.until(TRAINING)
    slurm.sbatch("#!/bin/bash\necho here\n", "-n8", "--partition=high", folder=folder).until("here")
    job.until("Slurm has put it back into the queue, from where it goes on")
    job.until("goes on from")
    slurm.wait(lambda: job.said().count(TRAINING) > 1, seen=job.said)
    node = slurm.run("sinfo", "--noheader", "--format=%n")
    slurm.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=fails")
    for process in processes_in(folder):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    with suppress(NoSlurmError):  # it may have come back by itself
        slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    said = job.end()
    assert said.count("goes on from") == 2
    assert weights_in(said) == weights_in(phalanx(*IN_TURNS.split()).stdout)
    assert (job.ask("JobState"), job.ask("Restarts")) == ("COMPLETED", "2")


def test_a_job_that_its_user_cancels_stays_away(slurm: Slurm, folder: Path) -> None:
    job = slurm.sbatch(
        OURS.replace("--ranks 2", "--ranks 2 --output run --requeue"), "-n2", folder=folder
    )
    job.until(TRAINING)
    job.cancel()
    assert "was cancelled, and is not put back into the queue" in job.end()
    assert (job.ask("JobState"), job.ask("Restarts")) == ("CANCELLED", "0")


def test_a_job_that_another_pushes_aside_starts_again(slurm: Slurm, folder: Path) -> None:
    script = (
        "#!/bin/bash\necho turn $SLURM_RESTART_COUNT.\n[ $SLURM_RESTART_COUNT ] || sleep 1000\n"
    )
    aside = slurm.sbatch(script, "-n8", "--partition=low", "--open-mode=append", folder=folder)
    aside.until("turn .")
    slurm.sbatch("#!/bin/bash\necho here\n", "-n8", "--partition=high", folder=folder).until("here")
    assert "turn 1." in aside.end()
    assert (aside.ask("JobState"), aside.ask("Restarts")) == ("COMPLETED", "1")


def test_a_slurm_that_does_not_start_shows_its_log() -> None:
    problem = r"(?s)slurm(ctld|d) ended with code 1.*NoSuchSetting"  # either may be the first
    with pytest.raises(NoSlurmError, match=problem), running_slurm("NoSuchSetting=1"):
        pass


KILLED = """
import pathlib
from tests.system.slurm import running_slurm
with running_slurm() as slurm:
    job = slurm.sbatch("#!/bin/bash\\necho begun\\nsleep 1000\\n", folder=pathlib.Path.cwd())
    job.until("begun")
    print(slurm.folder, flush=True)
    input()
"""


def test_tests_that_are_killed_leave_no_slurm_behind(tmp_path: Path) -> None:
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    with subprocess.Popen(
        [sys.executable, "-c", KILLED],
        cwd=tmp_path,
        env=environment() | {"PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert {"munged", "slurmctld", "slurmd"} <= programs_with(folder)
        assert len(processes_in(tmp_path)) > 1
        process.kill()
    deadline = time.monotonic() + PATIENCE
    while programs_with(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert programs_with(folder) == set()
    assert not folder.exists()
    assert processes_in(tmp_path) == []


def programs_with(folder: Path) -> set[str]:
    """The programs that run on a folder's files, by their command lines."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone meanwhile
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if any(os.fsencode(folder) in word for word in words[1:]):
                found.add(Path(os.fsdecode(words[0])).name)
    return found


def test_the_signal_before_the_end_of_the_time_ends_it_in_order(long_jobs: LongJobs) -> None:
    for job in long_jobs.told:
        said = job.end()
        assert "CANCELLED" not in said
        assert re.search(r"ended by SIGUSR1: .* a checkpoint of step [\d,]+, in", said)
        assert job.ask("ExitCode") == "138:0"


def test_a_job_with_a_minute_a_turn_comes_to_the_weights_of_an_undisturbed_run(
    long_jobs: LongJobs, phalanx: Phalanx, tmp_path: Path
) -> None:
    """Its first turn would take longer, and it is started again."""
    (tmp_path / "net.py").write_text(NET)
    undisturbed = weights_in(phalanx(*IN_TURNS.split()).stdout)
    for job in long_jobs.in_turns:
        said = job.end()
        assert weights_in(said) == undisturbed
        assert int(job.ask("Restarts")) >= 1
        assert said.count("is back in the queue, from where it goes on") == int(job.ask("Restarts"))
        assert (job.ask("JobState"), job.ask("ExitCode")) == ("COMPLETED", "0:0")
    assert left_behind(long_jobs.folder) == []
