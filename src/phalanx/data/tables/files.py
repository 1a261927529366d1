"""Which table a csv data set is in, and which one has its test rows, if one has. Without torch."""

from dataclasses import dataclass
from pathlib import Path

from phalanx.data.location import only_file

#: How the names of tables end.
SUFFIXES = tuple(f".{kind}{packed}" for kind in ("csv", "tsv", "data") for packed in ("", ".gz"))


@dataclass(frozen=True)
class Tables:
    """The file with the rows to train on, and the one with those to test with."""

    train: Path
    test: Path | None = None


def find(path: Path, *, split_is_given: bool = False) -> Tables:
    """The tables at a path: train.csv and test.csv of a folder, or the one table there is.

    The file train.csv has its test rows in a test.csv beside it, unless a part of its own rows is
    asked for.
    """
    if path.is_dir():
        train, test = _named(path, "train"), _named(path, "test")
        if train is not None and test is not None:
            return Tables(train, test)
    elif path.is_file() and not split_is_given and _is_named(path, "train"):
        return Tables(path, _named(path.parent, "test"))
    return Tables(only_file("csv", path, suffixes=SUFFIXES))


def _named(folder: Path, stem: str) -> Path | None:
    found = sorted(one for one in folder.iterdir() if _is_named(one, stem) and one.is_file())
    return found[0] if found else None


def _is_named(path: Path, stem: str) -> bool:
    return path.name.lower() in [f"{stem}{suffix}" for suffix in SUFFIXES]
