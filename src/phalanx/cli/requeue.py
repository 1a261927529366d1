"""`--requeue`: a Slurm job that was told to end goes back into the queue, and on in its next turn.

Slurm then runs the same batch script again, with SLURM_RESTART_COUNT in its environment; so it does
with a job whose node has failed.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import final

from phalanx.cli.interruption import last_checkpoint
from phalanx.comm.launch.job import restarts
from phalanx.comm.launch.signal_reader import ignore
from phalanx.errors import UsageError
from phalanx.settings.table import Settings
from phalanx.slurm.control import facts_of, said_by, scontrol

#: The signals by which Slurm ends a job, or says that it will.
_OF_SLURM = (signal.SIGTERM, signal.SIGUSR1)


def check_requeue(settings: Settings, resume: Path | None) -> None:
    """Refuse `--requeue` where no later turn could go on."""
    check_in_slurm()
    if resume is None and settings.output is None:
        raise UsageError("--requeue: name the folder that every turn goes on in with --output")
    check_checkpoints(settings)


def check_in_slurm() -> None:
    """Refuse `--requeue` where there is no queue."""
    if "SLURM_JOB_ID" not in os.environ:
        raise UsageError("--requeue is for the jobs of Slurm, and this is none: leave it out")


def check_checkpoints(settings: Settings, *, otherwise: str = "") -> None:
    """Refuse `--requeue` for a training that leaves nothing to go on from."""
    if settings.checkpoint_every == "never":
        raise UsageError(
            f"--requeue goes on from checkpoints: leave out --checkpoint-every never{otherwise}"
        )


def run_of_last_turn(output: Path | None) -> Path | None:
    """The folder to go on with, if this is a job's second turn or a later one.

    In the first one, a folder that something else has left there is refused, as ever.
    """
    return output if restarts() else None


@final
class Requeue:
    """This turn of a job, from before its training goes on."""

    def __init__(self, *runs: Path) -> None:
        """One of them, or those of a sweep: if any gets further, the job does."""
        self._runs = runs
        self._before = self._progress()

    def _progress(self) -> list[Path | None]:
        return [last_checkpoint(run) for run in self._runs]

    def after(self, number: int) -> None:
        """A signal has ended the training: have the job go on with it later, if Slurm has sent it.

        The last thing to do: Slurm ends a job that it puts back into the queue.
        """
        if number not in _OF_SLURM:
            return
        for one in _OF_SLURM:  # the end has begun, and what is said of it should be read
            ignore(one)
        job = os.environ["SLURM_JOB_ID"]
        print(f"job {job}: {self._put_back(job)}", file=sys.stderr, flush=True)

    def _put_back(self, job: str) -> str:
        if self._progress() == self._before:
            return (
                "not put back into the queue, because it got no further in this turn: give it more "
                "time"
            )
        try:
            state = facts_of(job)
            if state.get("Restarts", "0") != str(restarts()):
                return "Slurm has put it back into the queue, from where it goes on"
            if not _goes_on(state):
                return "was cancelled, and is not put back into the queue"
            scontrol("requeue", job)
        except (OSError, subprocess.SubprocessError) as error:
            return f"could not be put back into the queue: {said_by(error)}"
        return "is back in the queue, from where it goes on"


def _goes_on(state: Mapping[str, str]) -> bool:
    """Whether the job is to go on, by what Slurm says of it: not if its user has cancelled it."""
    runs = state.get("JobState") == "RUNNING"
    out_of_time = state.get("Reason") == "TimeLimit"
    return runs or out_of_time or state.get("PreemptTime", "None") != "None"
