"""What a job prints, passed on while it runs, until it ends."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, final

from phalanx.errors import LaunchError
from phalanx.slurm.control import JobState, job_state, said_by

#: Seconds between two looks at what it has printed, and between two questions to Slurm.
_LOOK, _ASK = 0.5, 2.0
#: Seconds that Slurm may be silent.
_SILENCE = 120.0


@final
class Output:
    """A file that somebody else writes, and perhaps begins anew."""

    def __init__(self, path: Path, to: BinaryIO) -> None:
        self._path, self._to = path, to
        self._position = 0

    def pass_on(self) -> bool:
        """Write what is new; whether there was anything."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._position:
                    self._position = 0
                file.seek(self._position)
                new = file.read()
        except OSError:  # it is not there yet, or not to be read just now
            return False
        self._position += len(new)
        self._to.write(new)
        self._to.flush()
        return bool(new)


def follow(job: str, output: Output, *, tell: Callable[[str], None]) -> JobState:
    """Pass on what a job prints until it has ended, over all its turns; how it has ended.

    `tell` is called with what Slurm says of it, whenever that changes.
    """
    slurm, told, asked = _Patient(job), "", -_ASK
    while True:
        output.pass_on()
        now = time.monotonic()
        if now - asked < _ASK:
            time.sleep(_LOOK)
            continue
        asked = now
        state = slurm.state()
        if state is None:
            continue
        if (said := _in_words(state)) != told:
            told = said
            tell(f"job {job}: {said}")
        if state.has_ended:
            _to_the_end(output)
            return state


@final
class _Patient:
    """Asks Slurm about a job, and does not mind if it is silent for a while."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._heard = time.monotonic()

    def state(self) -> JobState | None:
        """What Slurm says, or None if it is silent."""
        try:
            state = job_state(self._job)
        except (OSError, subprocess.SubprocessError) as error:
            if time.monotonic() - self._heard > _SILENCE:
                raise LaunchError(f"Slurm does not answer: {said_by(error)}") from error
            return None
        if state is None:
            raise LaunchError(f"Slurm knows no job {self._job} any more, nor how it has ended")
        self._heard = time.monotonic()
        return state


def _in_words(state: JobState) -> str:
    why = f" ({state.reason})" if state.reason else ""
    return {"PENDING": f"waits in the queue{why}", "RUNNING": "runs"}.get(
        state.state, f"{state.state}{why}"
    )


def _to_the_end(output: Output) -> None:
    """What was written on another host may be seen a little later."""
    time.sleep(_LOOK)
    while output.pass_on():
        time.sleep(_LOOK)
