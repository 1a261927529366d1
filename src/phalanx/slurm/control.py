"""Slurm's own commands, asked as a person asks them."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from phalanx.errors import LaunchError, UsageError

#: Seconds that Slurm has to answer; it kills what it has ended half a minute later.
_PATIENCE = 20
#: The states of a job from which it does not go on.
_ENDED = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL"),
    *("DEADLINE", "PREEMPTED", "REVOKED"),
)
_UNKNOWN_JOB = "Invalid job id"


@final
@dataclass(frozen=True)
class JobState:
    """What Slurm says of a job."""

    state: str
    reason: str = ""
    #: What its script has exited with, and the signal that has ended it, such as 0:15.
    exit: str = "0:0"

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED

    @property
    def exit_code(self) -> int:
        """Of its script, or 128 + the signal; 1 for a job that came to no end of its own."""
        code, _, number = self.exit.partition(":")
        found = int(code) if code.isdecimal() else 1
        found = found or (128 + int(number) if number.isdecimal() and number != "0" else 0)
        return found or int(self.state != "COMPLETED")


def job_state(job: str) -> JobState | None:
    """What Slurm says of a job; None if it knows none of that number, or no longer."""
    try:
        facts = facts_of(job)
    except subprocess.CalledProcessError as error:
        if _UNKNOWN_JOB in str(error.stderr):
            return None
        raise
    reason = facts.get("Reason", "None")
    return JobState(
        state=facts.get("JobState", ""),
        reason="" if reason == "None" else reason,
        exit=facts.get("ExitCode", "0:0"),
    )


def facts_of(job: str) -> Mapping[str, str]:
    """All that Slurm says of a job, by Slurm's names; those with spaces in them are cut short."""
    told = scontrol("--oneliner", "show", "job", job)
    return dict(word.partition("=")[::2] for word in told.split())


def scontrol(*arguments: str) -> str:
    """What `scontrol` answers; an OSError or a SubprocessError if it does not."""
    return _answer("scontrol", *arguments)


def has_pmix() -> bool | None:
    """Whether `srun` can start ranks by PMIx here; None without an `srun` to ask."""
    if shutil.which("srun") is None:
        return None
    try:
        answer = subprocess.run(
            ["srun", "--mpi=list"], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return "pmix" in answer.stdout + answer.stderr


def submit(script: str) -> str:
    """Put a batch script into the queue; the number of its job."""
    if shutil.which("sbatch") is None:
        raise LaunchError(
            "there is no sbatch here, which puts jobs into Slurm's queue: call this where Slurm "
            "is, such as on a cluster's login node; --dry-run prints the script anywhere"
        )
    try:
        answer = _answer("sbatch", "--parsable", given=script)
    except subprocess.CalledProcessError as error:
        raise UsageError(f"sbatch refuses this job: {said_by(error)}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise LaunchError(f"sbatch does not answer: {said_by(error)}") from error
    return answer.strip().partition(";")[0]


def said_by(error: Exception) -> str:
    """What a command of Slurm's has to say about its failure."""
    said = getattr(error, "stderr", None)
    return said.strip() if isinstance(said, str) and said.strip() else str(error)


def _answer(*command: str, given: str | None = None) -> str:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=_PATIENCE, check=True
    )
    return done.stdout
