"""`phalanx doctor` beside a real Slurm, in its batch scripts, and as a step of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import left_behind
from tests.system.slurm import PACKAGES, Slurm, running_slurm

pytestmark = pytest.mark.system(*PACKAGES)

DOCTOR = ("phalanx", "doctor", "--json", "--time-limit", "240")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with running_slurm() as slurm:
        yield slurm


def by_name(said: str) -> dict[str, Any]:
    found = json.loads(said)["findings"]
    assert [one for one in found if one["verdict"] == "broken"] == []
    return {one["name"]: one for one in found}


def test_outside_of_a_job_slurm_is_found(slurm: Slurm) -> None:
    found = by_name(slurm.run(*DOCTOR, "--ranks", "2"))
    assert "is UP" in found["Slurm"]["said"]
    assert found["Slurm job"]["facts"]["inside"] is False
    assert "pmix" in found["srun"]["facts"]["kinds"]


def test_a_batch_script_starts_ranks_and_is_a_job(slurm: Slurm, tmp_path: Path) -> None:
    job = slurm.sbatch(f"#!/bin/bash\nexec {' '.join(DOCTOR)}\n", "-n2", folder=tmp_path)
    found = by_name(job.end())
    assert job.ask("ExitCode") == "0:0"
    assert found["Slurm job"]["facts"]["number"] == job.number
    assert found["Slurm job"]["facts"]["tasks"] == "2"
    assert "started for this" in found["ranks"]["said"]
    assert found["fault tolerance"]["verdict"] == "fine"
    assert left_behind(tmp_path) == []


def test_the_tasks_of_srun_examine_themselves(slurm: Slurm, tmp_path: Path) -> None:
    done = slurm.srun("--mpi=pmix", "-n", "2", *DOCTOR, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = by_name(done.stdout)
    assert found["ranks"]["said"] == "2 ranks of this job"
    assert len(found["collectives"]["facts"]["right"]) == 10
    assert left_behind(tmp_path) == []


def test_tasks_without_mpi_are_broken(slurm: Slurm, tmp_path: Path) -> None:
    done = slurm.srun("-n", "2", *DOCTOR, folder=tmp_path)
    assert done.returncode == 1
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["ranks of this job"]["verdict"] == "broken"
    assert "srun --mpi=pmix" in found["ranks of this job"]["advice"]
