"""Slurm: whether it is there and answers, the job that this is in, and how it starts ranks."""

import os
import re
import shutil
from collections.abc import Iterator

from phalanx.observe.doctor.asking import ask
from phalanx.observe.doctor.finding import Finding, Group, broken, fine, odd
from phalanx.observe.doctor.scope import Scope


def slurm(scope: Scope) -> Iterator[Finding]:
    """The commands, and what they say."""
    if shutil.which("srun") is None:
        if "SLURM_JOB_ID" in os.environ:
            why = f"this is job {os.environ['SLURM_JOB_ID']}, without `srun` on PATH"
            yield odd("Slurm", why, "add Slurm's commands to PATH (a container may lack them)")
        else:
            yield fine("Slurm", "none here", present=False)
        return
    answer = ask(["scontrol", "ping"], seconds=scope.seconds)
    if answer.code == 0 and "UP" in answer.output:
        yield fine("Slurm", _first_line(answer.output), present=True)
    else:
        yield odd(
            "Slurm", f"its controller does not answer: {answer.why}", "jobs cannot be started"
        )
        return
    yield from _job()
    yield _pmix(scope)


def launched_alone(scope: Scope) -> Iterator[Finding]:
    """Tasks that do not know of each other: `srun` without MPI, or variables of another job."""
    if isinstance(scope.job, str):
        said, _, advice = scope.job.partition("; ")
        yield broken("ranks of this job", said, advice or "see what it says")


def _job() -> Iterator[Finding]:
    number = os.environ.get("SLURM_JOB_ID")
    if number is None:
        yield fine("Slurm job", "this is outside of one", inside=False)
        return
    names = {
        "nodes": "SLURM_JOB_NUM_NODES",
        "tasks": "SLURM_NTASKS",
        "cpus a task": "SLURM_CPUS_PER_TASK",
        "cpus a node": "SLURM_JOB_CPUS_PER_NODE",
        "MiB a node": "SLURM_MEM_PER_NODE",
        "starts again": "SLURM_RESTART_COUNT",
    }
    told = {
        name: os.environ[variable] for name, variable in names.items() if variable in os.environ
    }
    said = ", ".join(f"{name}: {value}" for name, value in told.items())
    yield fine("Slurm job", f"{number}; {said}", inside=True, number=number, **told)


def _pmix(scope: Scope) -> Finding:
    """Whether `srun` can start MPI ranks itself."""
    answer = ask(["srun", "--mpi=list"], seconds=scope.seconds)
    kinds = re.findall(r"^\s*(\w+)\s*$", answer.output + answer.errors, re.MULTILINE)
    listed = ", ".join(kinds) or answer.why
    if any(kind.startswith("pmix") for kind in kinds):
        return fine("srun", "`srun --mpi=pmix phalanx train …` starts ranks", kinds=kinds)
    why = f"`srun --mpi=list` offers {listed}: no pmix, which Open MPI's ranks need"
    advice = "let phalanx start the ranks: `phalanx train --ranks N …` in the batch script"
    return odd("srun", why, advice, kinds=kinds)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]


GROUP = Group("Slurm", (slurm, launched_alone))
