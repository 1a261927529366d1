"""MNIST: 70,000 handwritten digits of 28×28 pixels."""

from pathlib import Path

from phalanx.data.formats.idx_folder import load_idx_folder
from phalanx.data.split import Dataset

CLASSES = tuple("0123456789")


def load(folder: Path, *, test_dir: Path | None = None) -> Dataset:
    """60,000 digits to train on, 10,000 to test."""
    return load_idx_folder("mnist", folder, test_dir, classes=CLASSES)
