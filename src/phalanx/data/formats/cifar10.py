"""CIFAR-10: 60,000 photographs of 32×32 pixels in colour, of ten classes.

The binary version stays on disk, and each rank reads the images of its own parts; the pickles of
the Python version are read whole.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from phalanx.data.formats.cifar10_files import RECORD, find, is_binary, records
from phalanx.data.formats.cifar10_pickle import read_batch
from phalanx.data.rows import RowFile, Rows
from phalanx.data.split import Dataset, Split
from phalanx.errors import DataError

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
SHAPE = (3, 32, 32)

_BYTE = np.dtype(np.uint8)


def load(folder: Path, *, test_dir: Path | None = None) -> Dataset:
    """As many of the five training batches as there are, and the test batch, maybe elsewhere."""
    files = find(folder, test_dir)
    return Dataset("cifar10", _read(files.training), _read((files.test,)), CLASSES)


def _read(paths: tuple[Path, ...]) -> Split:
    return _from_records(paths) if is_binary(paths[0]) else _from_pickles(paths)


def _from_records(paths: tuple[Path, ...]) -> Split:
    files = [RowFile(path, records(path), start=1, stride=RECORD) for path in paths]
    labels = torch.cat([_labels(path, _first_bytes(path)) for path in paths])
    return Split(Rows(files, shape=SHAPE, dtype=_BYTE), labels, scale=1 / 255)


def _first_bytes(path: Path) -> Tensor:
    file = RowFile(path, records(path), start=0, stride=RECORD)
    return Rows([file], shape=(), dtype=_BYTE).take(torch.arange(file.count)).to(torch.int64)


def _from_pickles(paths: tuple[Path, ...]) -> Split:
    pixels, labels = [], []
    for path in paths:
        data, targets = read_batch(path)
        if len(data) != len(targets):
            raise DataError(f"{path}: {len(data)} images and {len(targets)} labels")
        pixels.append(torch.from_numpy(np.array(data)))
        labels.append(_labels(path, torch.from_numpy(targets)))
    return Split(torch.cat(pixels).reshape(-1, *SHAPE), torch.cat(labels), scale=1 / 255)


def _labels(path: Path, labels: Tensor) -> Tensor:
    wrong = ((labels < 0) | (labels >= len(CLASSES))).nonzero().flatten().tolist()
    if wrong:
        raise DataError(
            f"{path}: label {int(labels[wrong[0]])} at record {wrong[0]}; "
            f"labels go from 0 to {len(CLASSES) - 1}"
        )
    return labels
