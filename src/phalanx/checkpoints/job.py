"""One rank's part in writing one checkpoint, in a thread of its own, which must not call MPI.

Each rank writes its file and then a note about it, into a folder that all see. The thread of rank 0
waits for the notes, writes checkpoint.json and gives the folder its name.
"""

import json
import logging
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import final

from torch import Tensor

from phalanx.checkpoints import document
from phalanx.checkpoints.document import Document
from phalanx.checkpoints.folders import Partial, remove_others
from phalanx.checkpoints.tensor_files import Sum, write_tensors

log = logging.getLogger("phalanx.checkpoints")

#: How often rank 0 looks for the notes of the others.
_POLL_SECONDS = 0.02


class WriteFailedError(Exception):
    """A rank could not write its part; says which and why."""


@final
class Job:
    """Begun when it is made; when it is over, `failure` says what went wrong, if anything."""

    def __init__(self, work: "Callable[[Job], None]") -> None:
        self.failure: str | None = None
        self._given_up: str | None = None
        self._stop = threading.Event()
        self._work = work
        # A daemon: a job that is ended must not wait for a disk.
        self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def wait(self) -> None:
        self._thread.join()

    def give_up(self, why: str) -> None:
        """Wait no longer for the other ranks."""
        self._given_up = why
        self._stop.set()

    def pause(self) -> None:
        """Let some time pass; raises if there is no use in waiting on."""
        if self._stop.wait(_POLL_SECONDS):
            raise WriteFailedError(self._given_up)

    def _run(self) -> None:
        try:
            self._work(self)
        except Exception as error:  # whatever it is, the training goes on
            self.failure = _cause(error)
        self._work = _nothing  # and with it the copy in memory


def _nothing(_job: Job) -> None: ...


def write_part(
    folder: Path, rank: int, tensors: dict[str, Tensor], *, in_rows: Collection[str]
) -> None:
    """Write this rank's file, if it has anything to write, and a note about it."""
    if not tensors:
        return
    path = folder / document.file_name(rank)
    try:
        written = write_tensors(path, tensors, in_rows=in_rows)
    except Exception as error:
        path.unlink(missing_ok=True)  # a note needs a little of the space
        _write_note(folder, rank, {"failed": _cause(error)})
        raise
    finally:
        tensors.clear()
    _write_note(folder, rank, written._asdict())


def _write_note(folder: Path, rank: int, note: dict[str, int | str]) -> None:
    beside = folder / f"{_note_name(rank)}.{secrets.token_hex(4)}"
    try:
        beside.write_text(json.dumps(note))
        beside.rename(folder / _note_name(rank))
    except OSError:
        # Not even a note can be left: that the folder is gone says enough.
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _note_name(rank: int) -> str:
    return f"rank-{rank}.note"


def write_whole(
    job: Job,
    partial: Partial,
    tensors: dict[str, Tensor],
    planned: Document,
    *,
    in_rows: Collection[str],
    keep: int | None,
) -> None:
    """Rank 0's part: its own file, then what makes a checkpoint of everybody's."""
    try:
        ranks = sorted({one.rank for parts in planned.tensors.values() for one in parts})
        write_part(partial.path, 0, tensors, in_rows=in_rows)
        files = {document.file_name(rank): _await_note(job, partial.path, rank) for rank in ranks}
        text = document.to_text(replace(planned, files=files))
        _write_text(partial.path / document.NAME, text)
        for rank in ranks:
            (partial.path / _note_name(rank)).unlink()
        path = partial.finish()
    except Exception as error:
        partial.drop()
        warn(planned.step, error)
        raise
    try:
        if keep is not None:
            remove_others(path.parent, path, keep=keep)
    except OSError as error:
        log.warning("old checkpoints in %s cannot be removed: %s", path.parent, error.strerror)


def warn(step: int, error: Exception) -> str:
    """Say that a checkpoint is not there; returns why."""
    why = _cause(error)
    log.warning(
        "the checkpoint at step %d could not be written (%s): the training goes on, and the last "
        "checkpoint stays",
        step,
        why,
    )
    return why


def _cause(error: Exception) -> str:
    found = error.strerror if isinstance(error, OSError) else str(error)
    return found or type(error).__name__


def _await_note(job: Job, folder: Path, rank: int) -> Sum:
    path = folder / _note_name(rank)
    while True:
        try:
            note = json.loads(path.read_text())
        except FileNotFoundError:
            if not folder.exists():
                raise WriteFailedError("a rank could not write its part") from None
            job.pause()
        else:
            if "failed" in note:
                raise WriteFailedError(f"rank {rank}: {note['failed']}")
            return Sum(**note)


def _write_text(path: Path, text: str) -> None:
    with path.open("x") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
