"""`phalanx submit`: what it refuses, the script that it writes, and how it follows a job.

Slurm's commands are stand-ins here; tests/system has the real ones.
"""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from phalanx.cli.app import app
from phalanx.errors import PhalanxError
from phalanx.slurm import following

Install = Callable[..., None]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and no Slurm."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def install(folder: Path) -> Install:
    """Puts stand-ins for Slurm's commands on the path."""

    def put(**programs: str) -> None:
        for name, text in programs.items():
            program = folder / "bin" / name
            program.write_text(f"#!/bin/sh\nPATH={os.defpath}\n{text}\n")
            program.chmod(0o755)

    return put


def call(*arguments: str) -> Result:
    done = CliRunner().invoke(app, ["submit", *arguments])
    if isinstance(done.exception, PhalanxError):
        raise done.exception
    return done


def script(*arguments: str) -> str:
    done = call("--dry-run", *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def command_in(text: str) -> str:
    return text[text.index("\nexec ") + 6 :].rstrip("\n")


def test_a_training_that_phalanx_starts() -> None:
    text = script("--ntasks", "8", "--time", "2h", "train", "--dataset", "iris", "--epochs", "3")
    assert text.startswith("#!/bin/bash\n#SBATCH --job-name=phalanx-train\n#SBATCH --ntasks=8\n")
    options = re.findall(r"^#SBATCH (.*)$", text, re.M)
    assert "--time=2:00:00" in options
    assert {"--requeue", "--open-mode=append", "--signal=B:USR1@60"} <= set(options)
    assert "phalanx starts the ranks, since there was no srun to ask for PMIx" in text
    assert f". {sys.prefix}/bin/activate\n" in text.replace("'", "")
    assert command_in(text) == (
        "phalanx train --dataset iris --epochs 3 --requeue "
        '--output="runs/phalanx-train-$SLURM_JOB_ID" --ranks=8'
    )


def test_a_training_that_srun_starts(install: Install) -> None:
    install(srun="echo MPI plugin types are... none pmix pmix_v4 >&2")
    text = script("--cpus-per-task", "4", "train", "--ranks", "8", "--output", "a run")
    assert "srun starts the ranks by PMIx, which `srun --mpi=list` has" in text
    assert "#SBATCH --signal=USR1@60\n" in text
    assert "#SBATCH --ntasks=8\n" in text
    assert "export OMP_NUM_THREADS=4\n" in text
    assert command_in(text) == (
        "srun --mpi=pmix --cpus-per-task=4 phalanx train --ranks 8 --output 'a run' --requeue"
    )
    ours = script("--launch", "phalanx", "train", "--ranks", "8")
    assert command_in(ours).startswith("phalanx train --ranks 8 --requeue")
    surviving = script("train", "--ranks", "8", "--on-failure", "shrink")
    assert command_in(surviving).startswith("phalanx train ")
    assert "srun ends them all when one is lost" in surviving


def test_srun_without_pmix(install: Install) -> None:
    install(srun="echo MPI plugin types are... none pmi2")
    assert "`srun --mpi=list` has no PMIx" in script("train", "--ranks", "2")
    with pytest.raises(PhalanxError, match="take --launch phalanx"):
        call("--dry-run", "--launch", "srun", "train")


def test_a_sweep_and_a_script() -> None:
    text = script("sweep", "--vary", "ranks=1,2", "--vary", "hidden=30,[300,300]")
    assert "#SBATCH --ntasks=2\n" in text
    assert command_in(text) == (
        "phalanx sweep --vary ranks=1,2 --vary 'hidden=30,[300,300]' --requeue "
        "--output=runs/sweep-digits-mlp-1"
    )
    text = script("run", "-n", "4", "python", "a b.py", "--", "it's")
    assert "#SBATCH --no-requeue\n" in text
    assert "--signal" not in text
    assert command_in(text) == "phalanx run -n 4 python 'a b.py' -- 'it'\"'\"'s'"


def test_what_else_slurm_is_asked_for() -> None:
    text = script(
        *("--nodes", "2", "--partition", "low", "--mem", "16G", "--account", "me", "--no-requeue"),
        *("--job-name", "mine", "--sbatch=--constraint=avx512", "--module", "openmpi/5"),
        *("--venv", "/my venv", "--setup", "conda activate x", "--grace", "5m", "--time", "1-0"),
        *("--", "train", "--resume", "run"),
    )
    options = re.findall(r"^#SBATCH (.*)$", text, re.M)
    assert options == [
        "--job-name=mine",
        "--ntasks=1",
        "--nodes=2",
        "--time=24:00:00",
        "--partition=low",
        "--mem=16G",
        "--account=me",
        "--constraint=avx512",
        "--output=%x-%j.out",
        "--open-mode=append",
        "--no-requeue",
        "--signal=B:USR1@300",
    ]
    assert "module load openmpi/5\n. '/my venv/bin/activate'\nconda activate x\n" in text
    assert command_in(text) == "phalanx train --resume run"


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["evaluate", "runs/one"], "takes train, sweep or run, not 'evaluate'"),
        (["train", "--epochs", "many"], "--epochs must be a whole number"),
        (["train", "--strategy", "server"], "strategy 'server' needs"),
        (["--ntasks", "4", "train", "--ranks", "2"], "--ntasks 4 for a command with 2 ranks"),
        (["--ntasks", "1", "sweep", "--vary", "ranks=1,2"], "--ntasks 1 for a command with 2"),
        (["--ntasks", "0", "train"], "--ntasks must be at least 1, not 0"),
        (["--launch", "srun", "sweep", "--vary", "seed=1,2"], "phalanx sweep starts the ranks"),
        (["--launch", "magic", "train"], "--launch must be auto, srun or phalanx"),
        (["--time", "1", "train"], "the job is told 60 s before its end"),
        (["--partition", "a b", "train"], "--partition 'a b': has spaces"),
        (["--wait", "--dry-run", "train"], "submits nothing to --wait for"),
        (["--venv", "/nowhere", "train"], "there is no /nowhere/bin/activate"),
        (["train", "--checkpoint-every", "never"], "or say --no-requeue before the command"),
        (["sweep", "--vary", "hiden=1"], "did you mean 'hidden'?"),
        (["train"], "there is no sbatch here"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_refused_before_anything_is_submitted(arguments: list[str], cause: str) -> None:
    with pytest.raises(PhalanxError) as refused:
        call(*arguments)
    assert cause in str(refused.value)


def test_an_unknown_flag_of_the_command_is_refused() -> None:
    assert CliRunner().invoke(app, ["submit", "--dry-run", "train", "--epoch", "3"]).exit_code == 2


def test_the_script_goes_to_sbatch(install: Install, folder: Path) -> None:
    install(sbatch='echo "$@" > asked; cat > script; echo "12;cluster"')
    done = call("train", "--epochs", "2")
    assert done.stdout == "job 12: phalanx-train, output in phalanx-train-12.out\n"
    assert (folder / "asked").read_text() == "--parsable\n"
    assert (folder / "script").read_text() == script("train", "--epochs", "2")


def test_what_sbatch_refuses_is_said(install: Install) -> None:
    install(sbatch='echo "sbatch: error: invalid partition specified: x" >&2; exit 1')
    with pytest.raises(PhalanxError, match=r"sbatch refuses this job: .*invalid partition"):
        call("--partition", "x", "train")


#: Answers one line of the file `states` after the other, and the job prints something before each.
SCONTROL = """
[ -s states ] || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }
read -r line < states
sed -i 1d states
case "$line" in silent) echo "Unable to contact slurm controller" >&2; exit 1;; esac
echo "said before $line" >> phalanx-train-7.out
echo "JobId=7 JobName=x $line"
"""


def wait_for(install: Install, folder: Path, *states: str) -> Result:
    install(sbatch="cat > /dev/null; echo 7", scontrol=SCONTROL)
    (folder / "states").write_text("".join(f"{one}\n" for one in states))
    return call("--wait", "train")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_ASK", 0.0)
    monkeypatch.setattr(following, "_LOOK", 0.0)


@pytest.mark.usefixtures("quick")
def test_a_job_is_followed_over_its_turns_to_its_end(install: Install, folder: Path) -> None:
    done = wait_for(
        install,
        folder,
        "JobState=PENDING Reason=Resources ExitCode=0:0",
        "JobState=RUNNING Reason=None ExitCode=0:0",
        "silent",
        "JobState=PENDING Reason=BeginTime ExitCode=0:0",
        "JobState=RUNNING Reason=None ExitCode=0:0",
        "JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0",
    )
    assert done.exit_code == 3
    assert done.stderr.splitlines() == [
        "job 7: waits in the queue (Resources)",
        "job 7: runs",
        "job 7: waits in the queue (BeginTime)",
        "job 7: runs",
        "job 7: FAILED (NonZeroExitCode)",
    ]
    said = (folder / "phalanx-train-7.out").read_text()
    assert said.count("said before") == 5
    assert done.stdout.endswith(said)


@pytest.mark.usefixtures("quick")
def test_a_job_that_slurm_has_forgotten(install: Install, folder: Path) -> None:
    with pytest.raises(PhalanxError, match="Slurm knows no job 7 any more"):
        wait_for(install, folder, "JobState=RUNNING Reason=None ExitCode=0:0")
