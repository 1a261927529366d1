"""`phalanx doctor` where all is well, in a job, and where nothing is."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from phalanx.comm.launch.mpiexec import mpiexec_command
from phalanx.observe.doctor.verbs import TRIALS
from tests.commands import Phalanx, left_behind

LIMIT = ("--time-limit", "240")  # machines may be busy


def by_name(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert "Traceback" not in done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert set(document) == {"verdict", "findings"}
    return {one["name"]: one for one in document["findings"]}


def test_a_machine_that_is_well(phalanx: Phalanx, tmp_path: Path) -> None:
    done = phalanx("doctor", "--ranks", "2", "--json", *LIMIT)
    found = by_name(done)
    assert [name for name, one in found.items() if one["verdict"] == "broken"] == []
    assert done.returncode == 0
    groups = list(dict.fromkeys(one["group"] for one in found.values()))
    assert groups == [
        *("Software", "MPI", "Processor", "Memory and files", "GPUs", "Slurm", "Ranks")
    ]
    assert found["ranks"]["facts"] == {"ranks": 2}
    assert found["collectives"]["facts"]["right"] == list(TRIALS)
    assert found["memory between ranks"]["verdict"] == "fine"
    assert found["fault tolerance"]["facts"] == {"works": True}
    assert found["Python"]["facts"]["executable"] == sys.executable
    assert "the wheel of this environment" in found["MPI library"]["said"]
    assert found["mpiexec"]["facts"]["found"] == "beside this Python"
    assert found["messages"]["facts"]["bandwidth"] > 0
    assert left_behind(tmp_path) == []


@pytest.mark.long
def test_the_ranks_of_a_job_examine_themselves(tmp_path: Path) -> None:
    command, variables = mpiexec_command(2)
    done = subprocess.run(
        [*command, sys.executable, "-m", "phalanx", "doctor", *LIMIT],
        cwd=tmp_path,
        env=variables | {"COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("2 ranks of this job") == 1
    assert f"{', '.join(TRIALS)}: right" in " ".join(done.stdout.split())
    assert done.stdout.count("Software") == 1
    assert left_behind(tmp_path) == []


def test_where_nothing_works_every_line_says_so(tmp_path: Path, process: Phalanx) -> None:
    """No torch, no MPI, no mpiexec, nowhere to write, hardly a file to open."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("raise ImportError('libmpi.so: not found')")
    (tmp_path / "torch.py").write_text("import os; os.abort()")
    few = ("sh", "-c", 'unset HOME; ulimit -c 0; ulimit -n 30; exec "$@"', "sh")
    wrong = {"PYTHONPATH": str(tmp_path), "PHALANX_MPIEXEC": "/nowhere", "TMPDIR": "/proc/nowhere"}
    found = by_name(
        done := process("doctor", "--json", "--ranks", "2", *LIMIT, before=few, **wrong)
    )
    assert done.returncode == 1
    broken = {name: one["said"] for name, one in found.items() if one["verdict"] == "broken"}
    assert set(broken) == {
        *("torch", "mpi4py", "MPI library", "temporary files", "open files", "ranks")
    }
    assert "SIGABRT" in broken["torch"]
    assert "libmpi.so: not found" in broken["MPI library"]
    assert all(one["advice"] for one in found.values() if one["verdict"] != "fine")
    said = process("doctor", "--ranks", "2", *LIMIT, before=few, **wrong)
    assert said.returncode == 1
    assert "6 broken things" in said.stdout
    assert said.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--ranks", "0"), "at least 1, not 0"),
        (("--time-limit", "0"), "--time-limit must be above 0"),
        (("--hosts", ":2"), "is no host:slots"),
        (("--hosts", "a,b", "--ranks", "2"), "--ranks does not go with --hosts"),
    ],
)
def test_what_cannot_be_examined(
    phalanx: Phalanx, arguments: tuple[str, ...], refusal: str
) -> None:
    done = phalanx("doctor", *arguments)
    assert done.returncode == 2
    assert refusal in done.stderr


def test_tasks_of_srun_without_mpi_are_broken(phalanx: Phalanx) -> None:
    alone = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_ID": "1", "SLURM_PROCID": "0"}
    done = phalanx("doctor", "--json", *LIMIT, **alone)
    assert done.returncode == 1
    found = by_name(done)["ranks of this job"]
    assert found["said"] == "srun started 2 tasks without MPI, so each would train alone"
    other = phalanx("doctor", **alone | {"SLURM_PROCID": "1"})
    assert (other.returncode, other.stdout) == (0, "")
