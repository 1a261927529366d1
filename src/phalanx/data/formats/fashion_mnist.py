"""Fashion-MNIST: 70,000 pieces of clothing in MNIST's format."""

from pathlib import Path

from phalanx.data.formats.idx_folder import load_idx_folder
from phalanx.data.split import Dataset

CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def load(folder: Path, *, test_dir: Path | None = None) -> Dataset:
    """60,000 pictures to train on, 10,000 to test."""
    return load_idx_folder("fashion-mnist", folder, test_dir, classes=CLASSES)
