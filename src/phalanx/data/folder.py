"""Where a data set's files lie, and whether they are all there."""

import os
from collections.abc import Iterable
from pathlib import Path

from phalanx.errors import DataError

VARIABLE = "PHALANX_DATA"


def dataset_folder(name: str, data_dir: Path | None, *, patterns: Iterable[str]) -> Path:
    """`data_dir` if given, else the folder `name` in $PHALANX_DATA; it need not exist."""
    if data_dir is not None:
        return data_dir
    root = os.environ.get(VARIABLE)
    if not root:
        raise DataError(
            f"{name}: no folder given that holds {_listed(patterns)}: "
            f"give --data-dir DIR, or set {VARIABLE} to the folder that has {name}/ in it"
        )
    return Path(root) / name


def check_files(name: str, folder: Path, *, patterns: Iterable[str]) -> None:
    """Raise a DataError unless `folder` holds a file for every pattern."""
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        raise DataError(f"{name}: {folder} {state}; searched for {_listed(patterns)}. {_fix(name)}")
    missing = [pattern for pattern in patterns if not _matches(folder, pattern)]
    if missing:
        raise DataError(f"{name}: {folder} lacks {_listed(missing)}. {_fix(name)}")


def find_file(folder: Path, pattern: str) -> Path:
    """The file in `folder` that matches the pattern, else the one with `.gz` after it."""
    matches = _matches(folder, pattern)
    if not matches:
        raise DataError(f"{folder} lacks {_listed([pattern])}")
    return matches[0]


def _matches(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern)) + sorted(folder.glob(pattern + ".gz"))
    return [path for path in found if path.is_file()]


def _listed(patterns: Iterable[str]) -> str:
    return ", ".join(patterns) + " (plain or .gz)"


def _fix(name: str) -> str:
    return (
        f"Give the folder that holds these files with --data-dir DIR, "
        f"or set {VARIABLE} to the folder that has {name}/ in it"
    )
