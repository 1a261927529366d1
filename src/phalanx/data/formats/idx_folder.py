"""The four idx files that MNIST and data sets of its shape come in."""

from pathlib import Path

import torch
from torch import Tensor

from phalanx.data.formats.idx import read_idx
from phalanx.data.location import find_file
from phalanx.data.split import Dataset, Split
from phalanx.errors import DataError

SIDE = 28


def load_idx_folder(
    name: str, folder: Path, test_dir: Path | None, *, classes: tuple[str, ...]
) -> Dataset:
    """The data set in `folder`, or its test part in another one.

    Images stay bytes [n, 1, 28, 28], scaled to 0..1 when taken.
    """
    train = _load_part(folder, "train", classes=len(classes))
    test = _load_part(test_dir or folder, "t10k", classes=len(classes))
    return Dataset(name, train, test, classes)


def _load_part(folder: Path, part: str, *, classes: int) -> Split:
    images_path = find_file(folder, f"{part}-images-idx3-ubyte")
    labels_path = find_file(folder, f"{part}-labels-idx1-ubyte")
    images = _read_images(images_path)
    labels = _read_labels(labels_path, classes=classes)
    if len(images) != len(labels):
        raise DataError(
            f"{images_path} has {len(images)} images, {labels_path} {len(labels)} labels"
        )
    return Split(images, labels, scale=1 / 255)


def _read_images(path: Path) -> Tensor:
    images = read_idx(path, dimensions=3)
    count, height, width = images.shape
    if (height, width) != (SIDE, SIDE):
        raise DataError(f"{path}: images of {height}×{width} pixels, not {SIDE}×{SIDE}")
    if not count:
        raise DataError(f"{path}: no images in it")
    return images[:, None]


def _read_labels(path: Path, *, classes: int) -> Tensor:
    labels = read_idx(path, dimensions=1).to(torch.int64)
    wrong = (labels >= classes).nonzero().flatten().tolist()
    if wrong:
        label = int(labels[wrong[0]])
        raise DataError(
            f"{path}: label {label} at position {wrong[0]}; labels go from 0 to {classes - 1}"
        )
    return labels
