"""A run as it is being written: what cannot be written where it should be is written elsewhere.

A full disk, or a folder that somebody moved, is no reason to lose a training.
"""

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn

from phalanx.errors import RunError
from phalanx.runs.epoch_table import Row, read_rows
from phalanx.runs.folder import RunFolder
from phalanx.runs.weights import save_weights
from phalanx.runs.writing import WritingError, cause_of

log = logging.getLogger("phalanx.runs")

_Write = Callable[[RunFolder], None]
#: What a failing disk, or a file that is gone, raises.
_FAILURES = (OSError, RunError, SafetensorError)


class WrittenRun:
    """Rank 0's run folder while a training goes on."""

    def __init__(self, folder: RunFolder, *, moved: Callable[[Path], None] = lambda path: None):
        """`moved` is told where the run is from now on, if that changes."""
        self._folder = folder
        self._moved = moved
        self._asked = folder.path
        self._written: list[_Write] = []

    @property
    def path(self) -> Path:
        """Where the run is now."""
        return self._folder.path

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is not where it was to be."""
        return self.path != self._asked

    def write_config(self, *arguments: Any, **named: Any) -> None:
        self._write(lambda folder: folder.write_config(*arguments, **named))

    def add_epoch(self, row: Row) -> None:
        self._write(lambda folder: folder.add_epoch(row))

    def add_networks(self, epoch: int, rows: Sequence[Row]) -> None:
        self._write(lambda folder: folder.add_networks(epoch, rows))

    def add_phases(self, epoch: int, rows: Sequence[Row]) -> None:
        self._write(lambda folder: folder.add_phases(epoch, rows))

    def go_back(self, epochs: int) -> None:
        """Forget what there is of later epochs than so many: they are trained again."""
        path = self.path
        tables = [
            read_rows(path / name, before=epochs + 1)
            for name in ("history.csv", "networks.csv", "phases.csv")
        ]
        self._write(lambda folder: folder.keep_epochs(*tables))

    def save_weights(self, model: nn.Module) -> None:
        self._write(lambda folder: save_weights(model, folder.weights))

    def write_result(self, result: dict[str, Any]) -> None:
        self._write(lambda folder: folder.write_result(result))

    def write(self, name: str, write: Callable[[Path], None]) -> None:
        """Have something written to a file of this name."""
        self._write(lambda folder: write(folder.path / name))

    def close(self) -> None:
        """Let go of the folder."""
        self._folder.close()

    def _write(self, write: _Write) -> None:
        self._written.append(write)
        try:
            write(self._folder)
        except _FAILURES as error:
            self._move(cause_of(error))

    def _move(self, cause: str) -> None:
        """Write all that there is so far in another folder, and go on there."""
        for place in _other_places():
            try:
                folder = self._written_in(place)
            except _FAILURES:
                continue
            log.warning(
                "%s: cannot be written (%s): the run is in %s", self.path, cause, folder.path
            )
            self._folder.close()
            self._folder = folder
            self._moved(folder.path)
            return
        raise WritingError(f"{self.path}: cannot be written ({cause}), nor can any other folder be")

    def _written_in(self, place: Path) -> RunFolder:
        path = Path(tempfile.mkdtemp(prefix="phalanx-run-", dir=place))
        folder = RunFolder(path)
        try:
            for write in self._written:
                write(folder)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return folder


def _other_places() -> Iterator[Path]:
    """Where else there may be space: for files that come and go, at home, in memory."""
    yield Path(tempfile.gettempdir())
    yield Path.home()
    yield Path("/dev/shm")
