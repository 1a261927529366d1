"""What a run's folder records, read for looking at: finished or not, of this version or an older.

Nothing here imports torch.
"""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phalanx.documents import read_text
from phalanx.errors import RunError, UsageError
from phalanx.runs.epoch_table import whole_rows
from phalanx.runs.folder import has_config, has_result, read_config, read_result, read_surroundings
from phalanx.strategies.registry import training_ranks

#: A column of numbers by epoch; None is what was not measured.
Column = list[float | None]
_SECONDS = "_seconds"


@dataclass(frozen=True)
class RecordedRun:
    """One run: what it was asked for, how it went, and what came out, as far as that is known."""

    path: Path
    #: Short, and another one for each run that is looked at.
    name: str
    #: As in config.json, with the options of a user's own data set and model among them.
    settings: Mapping[str, Any]
    host: Mapping[str, Any]
    versions: Mapping[str, str]
    #: None if the training has not come to its end.
    result: Mapping[str, Any] | None
    #: The columns of history.csv.
    history: Mapping[str, Column]
    #: The columns of phases.csv: a row an epoch and rank.
    phases: Mapping[str, Column] = field(default_factory=dict)
    #: The columns of networks.csv: a row an epoch and rank, if several had samples.
    networks: Mapping[str, Column] = field(default_factory=dict)

    def known(self, name: str) -> Any:
        """A value of the result; None if there is none."""
        return None if self.result is None else self.result.get(name)

    @property
    def ranks(self) -> int | None:
        return self._count("ranks")

    @property
    def threads(self) -> int | None:
        return self._count("threads")

    @property
    def cores(self) -> int | None:
        """What it could keep busy: ranks, times the threads of each."""
        return None if not self.ranks or not self.threads else self.ranks * self.threads

    @property
    def strategy(self) -> str:
        return str(self.known("strategy") or self.settings.get("strategy") or "?")

    @property
    def batch(self) -> Any:
        """The samples of a step, over all ranks."""
        whole, part = (self.settings.get(one) for one in ("batch_size", "batch_size_per_rank"))
        if not isinstance(part, int) or not self.ranks:
            return whole
        return part * training_ranks(self.strategy, self.ranks)

    @property
    def test(self) -> Mapping[str, Any]:
        """What the last test came to."""
        return self.known("test") or {}

    @property
    def has_phases(self) -> bool:
        return self.known("phases") is not None

    def _count(self, name: str) -> int | None:
        value = self.known(name) or self.settings.get(name)
        return value if isinstance(value, int) else None


def read_runs(folders: Sequence[Path]) -> list[RecordedRun]:
    """The runs at these paths; a folder that has runs in it stands for all of them."""
    paths = [run for folder in folders for run in _runs_at(folder)]
    if len({path.resolve() for path in paths}) < len(paths):
        raise UsageError("a run is named twice: name each once")
    return [_read(path, name) for path, name in zip(paths, _names(paths), strict=True)]


def phases_of(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Of a table by epoch, the seconds in each phase, by its name."""
    return {
        name.removesuffix(_SECONDS).replace("_", " "): values
        for name, values in columns.items()
        if name.endswith(_SECONDS)
    }


def _runs_at(folder: Path) -> list[Path]:
    if has_config(folder) or not folder.is_dir():
        return [folder]
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and has_config(path))
    if not inside:
        raise RunError(f"{folder}: is not the folder of a run, and there is none in it")
    return inside


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart."""
    parts = [path.resolve().parts for path in paths]
    longest = max(map(len, parts), default=1)
    for length in range(1, longest + 1):
        names = ["/".join(one[-length:]) for one in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _read(path: Path, name: str) -> RecordedRun:
    settings = read_config(path).get("settings")
    if not isinstance(settings, dict):
        raise RunError(f"{path / 'config.json'}: has no settings")
    host, versions = read_surroundings(path)
    result = read_result(path) if has_result(path) else None
    tables = (_columns(path / table) for table in ("history.csv", "phases.csv", "networks.csv"))
    return RecordedRun(path, name, _flat(settings), host, versions, result, *tables)


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    own = settings.get("own")
    flat = {name: value for name, value in settings.items() if name != "own"}
    for options in own.values() if isinstance(own, dict) else ():
        flat |= options if isinstance(options, dict) else {}
    return flat


def _columns(path: Path) -> dict[str, Column]:
    """A table of numbers by its columns; empty if there is no such file."""
    try:
        rows = [*whole_rows(csv.DictReader(read_text(path).splitlines()))]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, csv.Error) as error:
        cause = getattr(error, "strerror", None) or error
        raise RunError(f"{path}: cannot be read: {cause}") from error
    names = [*rows[0]] if rows else []
    return {name: [_number(row[name], name, path) for row in rows] for name in names}


def _number(text: str, column: str, path: Path) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise RunError(f"{path}: '{column}' is not a column of numbers: it is damaged") from None
    if not math.isfinite(value):
        return None
    return int(value) if column in ("epoch", "rank") else value
