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
    """The batches that are there, all of one version."""

    training: tuple[Path, ...]
    test: Path

    @property
    def binary(self) -> bool:
        return self.test.suffix == ".bin"


def find(folder: Path) -> CifarFiles:
    """The batches in a folder, or where the archives unpack to in it; the binary ones first."""
    wanted = f"{_TRAINING[0]}.bin (to 5) and {_TEST}.bin, or pickles {_TRAINING[0]} and {_TEST}"
    check_folder("cifar10", folder, wanted=wanted)
    for suffix in (".bin", ""):
        for subfolder in _SUBFOLDERS:
            paths = [folder / subfolder / f"{name}{suffix}" for name in (*_TRAINING, _TEST)]
            *training, test = paths
            there = tuple(path for path in training if path.is_file())
            if there and test.is_file():
                return CifarFiles(there, test)
    raise DataError(f"cifar10: {folder} lacks {wanted}. {fix('cifar10')}")


def check(folder: Path, options: Mapping[str, Any]) -> None:
    """Raise for batches that are missing, or of a size they cannot have."""
    files = find(folder)
    if files.binary:
        for path in (*files.training, files.test):
            records(path)


def records(path: Path) -> int:
    """How many records a file of the binary version has."""
    size = path.stat().st_size
    if size == 0 or size % RECORD:
        raise DataError(f"{path}: {size:,} bytes, which are not records of {RECORD:,} bytes")
    return size // RECORD
