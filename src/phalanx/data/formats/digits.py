"""Digits: 1,797 handwritten digits of 8×8 pixels, embedded in the package."""

from pathlib import Path

import numpy as np
import torch

from phalanx.data.split import Dataset, Split

CLASSES = tuple("0123456789")
LARGEST_PIXEL = 16

_TRAINING_COUNT = 1438


def load(folder: Path) -> Dataset:
    """1,438 digits to train on, 359 to test; the file holds the order that parts them."""
    with np.load(folder / "digits.npz", allow_pickle=False) as arrays:
        images = torch.from_numpy(arrays["images"])[:, None]
        labels = torch.from_numpy(arrays["labels"].astype(np.int64))
        order = torch.from_numpy(arrays["order"].astype(np.int64))
    everything = Split(images, labels, scale=1 / LARGEST_PIXEL)
    train = everything.subset(order[:_TRAINING_COUNT])
    test = everything.subset(order[_TRAINING_COUNT:])
    return Dataset("digits", train, test, CLASSES)
