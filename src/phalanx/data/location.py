"""Where a data set's files lie, and whether they are all there."""

import os
from collections.abc import Iterable
from pathlib import Path

from phalanx.errors import DataError
from phalanx.files import what_it_is

VARIABLE = "PHALANX_DATA"


def data_path(name: str, data_dir: Path | None) -> Path | None:
    """`data_dir` if given, else the folder `name` in $PHALANX_DATA, if that is set.

    A user's own data set, whose name has a colon, has no folder there.
    """
    root = os.environ.get(VARIABLE)
    return data_dir if data_dir is not None or not root or ":" in name else Path(root) / name


def dataset_folder(name: str, data_dir: Path | None, *, wanted: str) -> Path:
    """The path of a data set, which need not exist; a DataError if none is given."""
    path = data_path(name, data_dir)
    if path is None:
        raise DataError(
            f"{name}: no folder given that holds {wanted}: "
            f"give --data-dir DIR, or set {VARIABLE} to the folder that has {name}/ in it"
        )
    return path


def is_same_data(one: Path, other: Path) -> bool:
    """Whether two paths name the same data: one path, or a folder and the one such file in it."""
    one, other = one.resolve(), other.resolve()
    folder, file = (one, other) if one.is_dir() else (other, one)
    if one == other or not (folder.is_dir() and file.is_file()):
        return one == other
    return [path for path in folder.iterdir() if path.suffix == file.suffix] == [file]


def check_folder(name: str, folder: Path, *, wanted: str) -> None:
    """Raise a DataError unless `folder` is a folder."""
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        raise DataError(f"{name}: {folder} {state}; searched for {wanted}. {fix(name)}")


def check_files(name: str, folder: Path, *, patterns: Iterable[str]) -> None:
    """Raise a DataError unless `folder` holds a file for every pattern."""
    patterns = tuple(patterns)
    check_folder(name, folder, wanted=listed(patterns))
    missing = [pattern for pattern in patterns if not _matches(folder, pattern)]
    if missing:
        raise DataError(f"{name}: {folder} lacks {listed(missing)}. {fix(name)}")


def find_file(folder: Path, pattern: str) -> Path:
    """The file in `folder` that matches the pattern, else the one with `.gz` after it."""
    matches = _matches(folder, pattern)
    if not matches:
        raise DataError(f"{folder} lacks {listed([pattern])}")
    return matches[0]


def only_file(name: str, path: Path, *, suffixes: tuple[str, ...]) -> Path:
    """The file itself, or the one file in a folder that ends in one of the suffixes."""
    wanted = " or ".join(f"*{suffix}" for suffix in suffixes)
    if path.is_file():
        return path
    if not path.exists():
        raise DataError(f"{name}: {path} does not exist; searched for a file {wanted}. {fix(name)}")
    if (what := what_it_is(path)) is not None:
        raise DataError(f"{name}: {path} is {what}, not a file {wanted}. {fix(name)}")
    # Hidden ones are no data: macOS writes ._data.csv beside data.csv.
    there = (one for one in path.iterdir() if not one.name.startswith("."))
    found = sorted(one for one in there if one.name.lower().endswith(suffixes))
    found = [one for one in found if one.is_file()]
    if not found:
        raise DataError(f"{name}: {path} lacks a file {wanted}. {fix(name)}")
    if len(found) > 1:
        names = ", ".join(one.name for one in found[:5])
        raise DataError(f"{name}: {path} has several files: {names}: give one as --data-dir FILE")
    return found[0]


def listed(patterns: Iterable[str]) -> str:
    """The patterns, for a message."""
    return ", ".join(patterns) + " (plain or .gz)"


def fix(name: str) -> str:
    """What a user can do about missing files."""
    return (
        f"Give the folder that holds these files with --data-dir DIR, "
        f"or set {VARIABLE} to the folder that has {name}/ in it"
    )


def _matches(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern)) + sorted(folder.glob(pattern + ".gz"))
    return [path for path in found if path.is_file()]
