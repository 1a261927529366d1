"""When a training writes a checkpoint: every few steps, minutes or epochs, and at its end.

For ranks that may be lost there are copies in memory as well, a few every second.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from phalanx.checkpoints import CheckpointWriter, newest_whole, read_checkpoint
from phalanx.checkpoints.document import NAME as DOCUMENT
from phalanx.checkpoints.reading import verify
from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.errors import CheckpointError
from phalanx.settings.intervals import Interval, parse_interval
from phalanx.state import State
from phalanx.train.interruption.looks import Looks
from phalanx.train.survival import Survival

if TYPE_CHECKING:
    from phalanx.train.trainer import Trainer

log = logging.getLogger("phalanx.checkpoints")

#: Rank 0's clock counts, and the others ask it about so often.
_SECONDS_BETWEEN_LOOKS = 1.0
#: What is redone when ranks are lost; and how many times as long as a copy takes it is at least.
_SECONDS_BETWEEN_COPIES = 0.25
_MOST_OF_COPIES = 40


@final
@dataclass(frozen=True)
class Checkpoints:
    """Where a training writes its checkpoints, how often, and how many of them stay.

    `every` is written as on the command line: "500" for steps, "30s", "5m", "1h", "1 epoch" or
    "never", which leaves the one at the end.
    """

    folder: Path | str
    every: str = "5m"
    keep: int = 2


@contextmanager
def checkpointing(
    comm: Communicator,
    wanted: Checkpoints | Path | str | None,
    *,
    survival: Survival | None = None,
    in_parts: bool = False,
) -> "Iterator[Checkpointing]":
    """Collective. The checkpoints of one call of `fit`, which may be given just a folder."""
    wanted = Checkpoints(wanted) if isinstance(wanted, Path | str) else wanted
    with phase("checkpoint"):
        one = Checkpointing(comm, wanted, survival=survival, in_parts=in_parts)
    try:
        yield one
    finally:
        one.close()


def obstacle(comm: Communicator, folder: Path) -> str | None:
    """Collective. Why no checkpoints can be written into a folder, if so; else it is there."""
    try:
        CheckpointWriter(folder, comm, keep=None).close()
    except CheckpointError as error:
        return str(error)
    return None


def write_checkpoint(
    comm: Communicator, parts: State, folder: Path, *, step: int, in_parts: bool = False
) -> None:
    """Collective. Write one checkpoint, and wait until it is on the disk."""
    with CheckpointWriter(folder, comm, keep=None, in_parts=in_parts) as writer:
        writer.write(parts, step)
        failure = writer.finish()
    if failure is not None:
        raise CheckpointError(f"{folder}: the checkpoint could not be written: {failure}")


def find_checkpoint(comm: Communicator, path: Path) -> State:
    """Collective. The checkpoint at a path, or the newest one in it that can be read.

    A damaged one is passed over, and that is said.
    """
    found = _found(comm, path, verified=False)
    return read_checkpoint(found, rank=comm.rank, size=comm.size)


def verified_checkpoint(comm: Communicator, path: Path) -> Path:
    """Collective. Where it is, all of it verified, for ranks that read some of it."""
    return _found(comm, path, verified=True)


def _found(comm: Communicator, path: Path, *, verified: bool) -> Path:
    # Rank 0 alone verifies: that reads every byte.
    found = comm.broadcast_object(_find(path, verified=verified) if comm.rank == 0 else path)
    if isinstance(found, CheckpointError):
        raise found
    return found


def _find(path: Path, *, verified: bool) -> Path | CheckpointError:
    """`verified` verifies one that is named by itself, too, which whoever reads all of it does."""
    try:
        if (path / DOCUMENT).exists():
            if verified:
                verify(path)
            return path
        chosen, passed_over = newest_whole(path)
    except CheckpointError as error:
        return error
    for why in passed_over:
        log.warning("%s: the one before, %s, is taken", why, chosen.name)
    return chosen


@final
class Checkpointing:
    """One call of `fit`: its checkpoints, if any are wanted."""

    def __init__(
        self,
        comm: Communicator,
        wanted: Checkpoints | None,
        *,
        survival: Survival | None = None,
        in_parts: bool = False,
    ) -> None:
        """Collective. Of a model in parts there is no room for copies."""
        self._in_parts = in_parts
        self._copying = None if survival is None else _Copying(comm, survival)
        self._writer: CheckpointWriter | None = None
        self._every = Interval()
        if wanted is not None:
            self._every = parse_interval(wanted.every, where="every")
            self._writer = CheckpointWriter(
                Path(wanted.folder), comm, keep=wanted.keep, in_parts=in_parts
            )
        self._timer = None
        if self._every.seconds is not None:
            self._timer = _Timer(comm, self._every.seconds)
        self._written: tuple[int, int] | None = None

    def after_step(self, trainer: "Trainer") -> None:
        """Collective. A step is done, and counted in."""
        step = trainer.position.step
        every = self._every.steps is not None and step % self._every.steps == 0
        if every or (self._timer is not None and self._timer.is_due(step)):
            self._write(trainer)
        if self._copying is not None:
            self._copying.after_step(trainer)

    def after_epoch(self, trainer: "Trainer") -> None:
        """Collective. An epoch is done, and all that goes along with it has moved on."""
        every = self._every.epochs
        if every is not None and trainer.position.epoch % every == 0:
            self._write(trainer)
        if self._copying is not None:  # what follows an epoch is not to be done twice
            self._copying.copy(trainer)

    def finish(self, trainer: "Trainer") -> None:
        """Collective. The training stops here; returns when all is on the disk."""
        if self._writer is None:
            return
        if self._written != _place(trainer):
            self._write(trainer)
        with phase("checkpoint"):
            self._writer.finish()

    def close(self) -> None:
        """Leave what is not finished."""
        if self._writer is not None:
            self._writer.close()

    def _write(self, trainer: "Trainer") -> None:
        assert self._writer is not None
        with phase("checkpoint"):
            self._writer.finish()  # before there is another copy
            parts = trainer.parts()
            if trainer.survival is not None:
                trainer.survival.check_all_here()
            self._writer.write(parts, trainer.position.step)
            if self._in_parts:  # what is being written must not be trained meanwhile
                self._writer.finish()
        self._written = _place(trainer)


def _place(trainer: "Trainer") -> tuple[int, int]:
    """Where it is; the end of an epoch is another place than its last step."""
    return trainer.position.epoch, trainer.position.step


@final
class _Copying:
    """Copies in memory: often enough that little is lost, and seldom enough to cost little."""

    def __init__(self, comm: Communicator, survival: Survival) -> None:
        self._survival = survival
        self._timer = _Timer(comm, _SECONDS_BETWEEN_COPIES)

    def after_step(self, trainer: "Trainer") -> None:
        """Collective."""
        self._survival.after_step(trainer.position.step)
        if self._timer.is_due(trainer.position.step):
            self.copy(trainer)

    def copy(self, trainer: "Trainer") -> None:
        """Collective."""
        started = time.monotonic()
        with phase("copy"):
            self._survival.keep(trainer.parts(), trainer.position)
        took = time.monotonic() - started
        self._timer.seconds = max(_SECONDS_BETWEEN_COPIES, _MOST_OF_COPIES * took)


@final
class _Timer:
    """Whether so many seconds have passed, by rank 0's clock and in the same step on all ranks."""

    def __init__(self, comm: Communicator, seconds: float) -> None:
        self._comm, self.seconds = comm, seconds
        self._since = time.monotonic()
        self._looks = Looks(min(_SECONDS_BETWEEN_LOOKS, seconds / 4))

    def is_due(self, step: int) -> bool:
        """Collective, in the steps in which ranks look at the clock; they agree on those."""
        if not self._looks.is_due(step):
            return False
        now = time.monotonic()
        told = (now - self._since >= self.seconds, self._looks.until_next(step))
        due, ahead = self._comm.broadcast_object(told)
        self._looks.agreed(step, ahead)
        if due:
            self._since = now
        return due
