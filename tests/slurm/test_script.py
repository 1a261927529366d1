"""The text of a job's script, and what Slurm says of a job."""

import subprocess
from pathlib import Path

import pytest

from phalanx.errors import UsageError
from phalanx.slurm.control import JobState
from phalanx.slurm.script import (
    Environment,
    batch_script,
    check_name,
    check_own,
    option,
    quoted,
)
from phalanx.slurm.times import parse_time, slurm_time

AWKWARD = ["two words", "it's", 'a "quote"', "a\nline", "$HOME", "`date`", "*", "", "\\", "#no"]


def test_bash_reads_arguments_as_they_were(tmp_path: Path) -> None:
    """The script is run by bash itself; `printf` shows what it was given."""
    script = batch_script(
        ["--ntasks=2"], Environment(), quoted(["printf", "%s\\0", *AWKWARD]), why="no reason"
    )
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == AWKWARD


def test_the_environment_comes_first(tmp_path: Path) -> None:
    venv = tmp_path / "my venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "activate").write_text("VENV=active\n")
    environment = Environment(("openmpi/5", "a b"), venv, ("MINE='x y'",), threads=3)
    command = ["bash", "-c", quoted(['echo "$LOADED|$VENV|$MINE|$OMP_NUM_THREADS"'])[0]]
    script = batch_script([], environment, command, why="no reason")
    stand_in = 'module() { LOADED+="[$2]"; }\nset -a\n'  # of a cluster
    done = subprocess.run(
        ["bash"], input=stand_in + script, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[openmpi/5][a b]|active|x y|3\n"
    assert done.stderr == ""


def test_options_stand_before_the_first_command() -> None:
    lines = batch_script(["--ntasks=2", "--time=1:00:00"], Environment(), ["true"], why="because")
    assert lines == (
        "#!/bin/bash\n#SBATCH --ntasks=2\n#SBATCH --time=1:00:00\n# because\nexec true\n"
    )


@pytest.mark.parametrize("value", ["a b", "a\n#SBATCH --uid=0", "'", '"', "a#b", "\\", ""])
def test_a_value_cannot_be_more_than_one(value: str) -> None:
    with pytest.raises(UsageError):
        option("partition", value)


def test_names_and_options_of_ones_own() -> None:
    assert option("mem", "16G") == "--mem=16G"
    assert check_name("resnet20.v2") == "resnet20.v2"
    assert check_own("--comment='a b'") == "--comment='a b'"
    for wrong in ("a/b", "a b", "", "x" * 101):
        with pytest.raises(UsageError, match="--job-name"):
            check_name(wrong)
    for wrong in ("--a\n--b", "rm"):
        with pytest.raises(UsageError, match="--sbatch"):
            check_own(wrong)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("2:00:00", 7200),
        ("1-12", 129600),
        ("1-0:30", 88200),
        ("1-00:00:01", 86401),
        ("30m", 1800),
        ("2h", 7200),
        ("45s", 45),
    ],
)
def test_times_as_slurm_and_people_write_them(text: str, seconds: int) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["soon", "0", "1:2:3:4", "2d", "-5", "1-"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"--time {text}"):
        parse_time(text)


def test_times_for_slurm() -> None:
    assert [slurm_time(one) for one in (45, 3661, 129600)] == ["0:00:45", "1:01:01", "36:00:00"]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (JobState("COMPLETED"), 0),
        (JobState("FAILED", "NonZeroExitCode", "2:0"), 2),
        (JobState("FAILED", "", "138:0"), 138),
        (JobState("CANCELLED", "", "0:15"), 143),
        (JobState("TIMEOUT", "TimeLimit", "0:0"), 1),
    ],
)
def test_the_exit_code_of_a_job(state: JobState, code: int) -> None:
    assert state.has_ended
    assert state.exit_code == code


def test_a_job_in_the_queue_has_not_ended() -> None:
    for state in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED"):
        assert not JobState(state).has_ended
