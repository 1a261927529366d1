"""The table of data sets; their code is imported only when one is loaded."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from phalanx.data.folder import check_files, dataset_folder
from phalanx.errors import UsageError
from phalanx.spelling import unknown

if TYPE_CHECKING:
    from phalanx.data.split import Dataset

EMBEDDED_FOLDER = Path(__file__).parent / "embedded"

IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known about a data set without reading it.

    `module` names the file whose `load(folder)` reads it; `files` are glob patterns, each of which
    must match a file in the folder, plain or with `.gz` after it.
    """

    name: str
    module: str
    summary: str
    embedded: bool
    input_shape: tuple[int, ...]
    classes: int
    files: tuple[str, ...]


_ENTRIES = (
    Entry(
        name="iris",
        module="phalanx.data.iris",
        summary="150 flowers, 4 measures, 3 species; embedded",
        embedded=True,
        input_shape=(4,),
        classes=3,
        files=("iris.csv",),
    ),
    Entry(
        name="digits",
        module="phalanx.data.digits",
        summary="1,797 handwritten digits, 8×8 grey; embedded",
        embedded=True,
        input_shape=(1, 8, 8),
        classes=10,
        files=("digits.npz",),
    ),
    Entry(
        name="mnist",
        module="phalanx.data.mnist",
        summary="70,000 handwritten digits, 28×28 grey; four idx files",
        embedded=False,
        input_shape=(1, 28, 28),
        classes=10,
        files=IDX_FILES,
    ),
    Entry(
        name="fashion-mnist",
        module="phalanx.data.fashion_mnist",
        summary="70,000 pieces of clothing, 28×28 grey; four idx files",
        embedded=False,
        input_shape=(1, 28, 28),
        classes=10,
        files=IDX_FILES,
    ),
)

_TABLE = {entry.name: entry for entry in _ENTRIES}


def dataset_names() -> tuple[str, ...]:
    """Every name that `load` takes."""
    return tuple(_TABLE)


def describe() -> tuple[Entry, ...]:
    """Every data set's entry, in the order to list them."""
    return _ENTRIES


def check(name: str, data_dir: Path | None = None) -> None:
    """Raise for an unknown name, or a folder or file that is missing; read nothing yet."""
    _locate(name, data_dir)


def load(name: str, *, data_dir: Path | None = None) -> Dataset:
    """Read a data set: from `data_dir` if given, else from its folder in $PHALANX_DATA."""
    entry, folder = _locate(name, data_dir)
    dataset: Dataset = importlib.import_module(entry.module).load(folder)
    return dataset


def _locate(name: str, data_dir: Path | None) -> tuple[Entry, Path]:
    entry = _entry(name)
    if not entry.embedded:
        folder = dataset_folder(name, data_dir, patterns=entry.files)
    elif data_dir is None:
        folder = EMBEDDED_FOLDER
    else:
        raise UsageError(f"{name} ships with Phalanx and is read from no folder: drop --data-dir")
    check_files(name, folder, patterns=entry.files)
    return entry, folder


def _entry(name: str) -> Entry:
    if name in _TABLE:
        return _TABLE[name]
    raise unknown("data set", name, known=_TABLE)
