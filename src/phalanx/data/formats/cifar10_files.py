"""The files of CIFAR-10, in its binary and its Python version. Without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.data.location import check_folder, fix
from phalanx.errors import DataError

PIXELS = 3 * 32 * 32
#: A record of the binary version: a byte for the label, then the pixels.
RECORD = 1 + PIXELS

_TRAINING = tuple(f"data_batch_{number}" for number in range(1, 6))
_TEST = "test_batch"
#: What the archives unpack to, and where their batches are.
_SUBFOLDERS = ("", "cifar-10-batches-bin", "cifar-10-batches-py")


@dataclass(frozen=True)
class CifarFiles:
    """The batches that are there, those of one folder all of one version."""

    training: tuple[Path, ...]
    test: Path


def is_binary(path: Path) -> bool:
    """Whether a batch is of the binary version."""
    return path.suffix == ".bin"


def find(folder: Path, test_dir: Path | None = None) -> CifarFiles:
    """The batches in a folder, or where the archives unpack to in it; the binary ones first.

    The test batch may be in another folder.
    """
    if test_dir is not None:
        return CifarFiles(_batches(folder, _TRAINING), *_batches(test_dir, (_TEST,)))
    *training, test = _batches(folder, (*_TRAINING, _TEST))
    return CifarFiles(tuple(training), test)


def _batches(folder: Path, names: tuple[str, ...]) -> tuple[Path, ...]:
    """Those of these batches that are there: the test batch, if it is wanted, and any others."""
    needed = {names[-1]} if names[-1] == _TEST else set()
    training = [f"{_TRAINING[0]}.bin (to 5)"] if names[0] == _TRAINING[0] else []
    files = " and ".join([*training, *(f"{name}.bin" for name in needed)])
    wanted = f"{files}, or the pickles that are called so without .bin"
    check_folder("cifar10", folder, wanted=wanted)
    for suffix in (".bin", ""):
        for subfolder in _SUBFOLDERS:
            paths = {name: folder / subfolder / f"{name}{suffix}" for name in names}
            there = {name: path for name, path in paths.items() if path.is_file()}
            if needed <= {*there} and (len(names) == 1 or {*there} - needed):
                return tuple(there.values())
    raise DataError(f"cifar10: {folder} lacks {wanted}. {fix('cifar10')}")


def check(folder: Path, options: Mapping[str, Any]) -> None:
    """Raise for batches that are missing, or of a size they cannot have."""
    files = find(folder, options.get("test_dir"))
    for path in filter(is_binary, (*files.training, files.test)):
        records(path)


def records(path: Path) -> int:
    """How many records a file of the binary version has."""
    size = path.stat().st_size
    if size == 0 or size % RECORD:
        raise DataError(f"{path}: {size:,} bytes, which are not records of {RECORD:,} bytes")
    return size // RECORD
