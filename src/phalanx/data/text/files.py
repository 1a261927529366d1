"""Which files make a text. Without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.errors import DataError, UsageError
from phalanx.files import check_file, what_it_is

#: Of a folder: what is trained on, and what is tested with.
_PARTS = ("train.txt", "test.txt")
_WANTED = "train.txt and test.txt, or any *.txt"
_FIX = "Give a file, or the folder that holds them, with --data-dir"


@dataclass(frozen=True)
class Found:
    """The files of a text, one behind the other, and those that it is tested with, if any are."""

    train: tuple[Path, ...]
    test: tuple[Path, ...] = ()


def find(path: Path) -> Found:
    """A file, whatever it is called, or the texts of a folder in the order of their names."""
    if path.is_file():
        return Found((path,))
    if not path.is_dir():
        state = what_it_is(path)
        state = "does not exist" if state is None else f"is {state}"
        raise DataError(f"text: {path} {state}; searched for {_WANTED}. {_FIX}")
    parts = [path / name for name in _PARTS]
    if all(part.is_file() for part in parts):
        return Found((parts[0],), (parts[1],))
    files = sorted(one for one in path.glob("*.txt") if not one.name.startswith("."))
    if not files:
        raise DataError(f"text: {path} lacks {_WANTED}. {_FIX}")
    return Found(tuple(files))


def check(path: Path, options: Mapping[str, Any]) -> None:
    """Raise for missing files, files of nothing, and a test part that there is already."""
    found = find(path)
    if found.test and "test_split" in options:
        raise UsageError(f"{path} has a test.txt of its own: leave out --test-split")
    if options.get("tokens") == "bytes" and "encoding" in options:
        raise UsageError("--encoding is for characters: leave it out, or --tokens bytes")
    for file in (*found.train, *found.test):
        try:
            check_file(file)
            empty = file.stat().st_size == 0
        except OSError as error:
            raise DataError(f"{file}: {error.strerror}") from error
        if empty:
            raise DataError(f"{file}: is empty")
