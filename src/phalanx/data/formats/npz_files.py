"""Which arrays make a data set, in a .npz file or as .npy files in a folder. Without torch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.data.containers.npz_archive import array_names
from phalanx.data.formats.npy import read_header
from phalanx.data.location import only_file
from phalanx.errors import DataError, UsageError

#: Pairs of inputs and targets, in the order they are looked for; the first is one for training.
_TRAINING = (("x_train", "y_train"), ("x", "y"), ("inputs", "targets"))
_TEST = ("x_test", "y_test")
_WANTED = "x_train and y_train (with x_test and y_test), X and y, or inputs and targets"


@dataclass(frozen=True)
class Names:
    """What the arrays of a data set are called, each pair as inputs and targets."""

    train: tuple[str, str]
    test: tuple[str, str] | None


@dataclass(frozen=True)
class Found:
    """Where the arrays of a data set are: in one .npz file, or in a folder of .npy files."""

    path: Path
    names: Names

    @property
    def is_folder(self) -> bool:
        return self.path.is_dir()

    def file(self, name: str) -> Path:
        """The file that an array of a folder is in."""
        return self.path / f"{name}.npy"


def find(path: Path) -> Found:
    """The arrays at a path: a .npz file, or a folder that has one or has .npy files."""
    if path.is_dir():
        arrays = [file.stem for file in sorted(path.glob("*.npy")) if file.is_file()]
        if arrays:
            return Found(path, _names(arrays, where=path))
    file = only_file("npz", path, suffixes=(".npz",))
    return Found(file, _names(array_names(file), where=file))


def check(path: Path, options: Mapping[str, Any]) -> None:
    """Raise for missing arrays, damaged headers, and a test part that there is already."""
    found = find(path)
    if found.names.test is not None and "test_split" in options:
        raise UsageError(f"{found.path} has test samples of its own: leave out --test-split")
    if found.is_folder:
        for name in (*found.names.train, *(found.names.test or ())):
            read_header(found.file(name))


def _names(arrays: Iterable[str], *, where: Path) -> Names:
    spelt = {name.lower(): name for name in arrays}
    for inputs, targets in _TRAINING:
        if inputs in spelt and targets in spelt:
            has_test = (inputs, targets) == _TRAINING[0] and all(name in spelt for name in _TEST)
            test = (spelt[_TEST[0]], spelt[_TEST[1]]) if has_test else None
            return Names((spelt[inputs], spelt[targets]), test)
    there = ", ".join(sorted(spelt.values())) or "nothing"
    raise DataError(f"{where}: holds {there}; needed are {_WANTED}")
