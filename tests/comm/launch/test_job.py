"""Which job a process belongs to, told from its environment."""

import pytest

from phalanx.comm import world
from phalanx.comm.launch.job import Job, current_job, ranks_agree
from phalanx.errors import LaunchError


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        ({}, None),
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"}, Job(size=4, rank=3)),
        ({"PMI_SIZE": "2", "PMI_RANK": "0"}, Job(size=2, rank=0)),
        ({"SLURM_STEP_NUM_TASKS": "3", "PMIX_RANK": "1"}, Job(size=3, rank=1)),
        # A batch script, and a step of one task: no MPI job.
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, None),
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, None),
    ],
)
def test_job_from_environment(environment: dict[str, str], job: Job | None) -> None:
    assert current_job(environment) == job


def test_slurm_tasks_without_mpi_are_refused() -> None:
    with pytest.raises(LaunchError, match=r"4 tasks without MPI.*srun --mpi=pmix"):
        current_job({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2"})


@pytest.mark.parametrize(
    "environment",
    [
        {"OMPI_COMM_WORLD_SIZE": "abc", "OMPI_COMM_WORLD_RANK": "0"},
        {"PMI_SIZE": "2", "PMI_RANK": "-1"},
        {"SLURM_STEP_NUM_TASKS": "x"},
    ],
)
def test_variables_that_are_no_numbers(environment: dict[str, str]) -> None:
    with pytest.raises(LaunchError, match=r"in the environment is no number.*unset it"):
        current_job(environment)


def test_ranks_that_are_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_RANKS", "abc")
    monkeypatch.setattr("phalanx.comm._world", None)
    with pytest.raises(LaunchError, match="PHALANX_RANKS=abc in the environment is no number"):
        world()


def test_ranks_must_agree_with_the_job() -> None:
    ranks_agree(Job(size=4, rank=0), None)
    ranks_agree(Job(size=4, rank=0), 4)
    with pytest.raises(LaunchError, match="--ranks 2 inside an MPI job of 4 ranks"):
        ranks_agree(Job(size=4, rank=0), 2)
