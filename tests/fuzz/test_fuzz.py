"""Damaged files, for every reader: an error that a person can read, or the right result.

Some in each run of the tests; `make test-long` reads 1,000 of each kind. Whatever goes wrong is
named by its number, which makes the same file again.
"""

import shutil
import warnings
from pathlib import Path
from random import Random
from typing import Protocol

import pytest

pytest.importorskip("scipy")
pytest.importorskip("PIL")

from tests.fuzz import arrays, checkpoints, pictures, texts
from tests.fuzz.child import read_all
from tests.fuzz.mutations import Seed, damaged
from tests.tiers import LONG, many, more_when_long

COUNT = many(50, long=1000)


class Reader(Protocol):
    """A reader of files: some that are valid, and reading one, with a look at what came of it."""

    def seeds(self) -> list[Seed]: ...

    def read(self, folder: Path, changed: Path) -> None: ...


READERS: dict[str, Reader] = {
    "csv": texts.Csv(),
    "npz": arrays.Npz(),
    "npy": arrays.Npy(),
    "mat": arrays.Mat(),
    "idx": arrays.Idx(),
    "gz": arrays.Gz(),
    "cifar-binary": arrays.CifarBinary(),
    "cifar-pickle": arrays.CifarPickle(),
    "images": pictures.Images(),
    "safetensors": texts.Safetensors(),
    "checkpoint": checkpoints.Checkpoint(),
    "forged-checkpoint": checkpoints.ForgedCheckpoint(),
    "config": texts.Config(),
    "env": texts.Env(),
    "result": texts.Result(),
}


def write(name: str, number: int, folder: Path) -> Path:
    """A file that is always the same for a number."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    random = Random(f"{name} {number}")
    seed = random.choice(READERS[name].seeds())
    file = folder / seed.file
    file.write_bytes(damaged(seed, random))
    return file


@pytest.mark.parametrize("name", READERS)
def test_files_that_are_valid_are_read(name: str, tmp_path: Path) -> None:
    for number, seed in enumerate(READERS[name].seeds()):
        folder = tmp_path / str(number)
        folder.mkdir()
        file = folder / seed.file
        file.write_bytes(seed.wrap(seed.content))
        READERS[name].read(folder, file)


@more_when_long
@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_refused_or_read_right(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(number: int) -> None:
        folder = tmp_path / "damaged"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            READERS[name].read(folder, write(name, number, folder))

    figures = read_all(read, COUNT)
    with capsys.disabled():
        if LONG:
            print(f"\n{name}: {figures}")
    assert figures.failures == []
