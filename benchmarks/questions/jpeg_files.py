"""A data set of many small JPEG files, as its author would write it, and a network for it."""

import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import Dataset

#: Files, how many of them differ, how many are in a folder, and the size of an image.
FILES, DISTINCT, IN_A_FOLDER, SIDE = 100_000, 10_000, 1_000, 64
CLASSES = 10


def make_files(folder: Path, *, files: int = FILES, distinct: int = DISTINCT) -> None:
    """Write so many files; those that are alike are links to one."""
    drawn = np.random.default_rng(0)
    paths = [path_of(folder, number) for number in range(files)]
    for parent in sorted({path.parent for path in paths}):
        parent.mkdir(parents=True)
    for number, path in enumerate(paths):
        if number < distinct:
            coarse = drawn.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            image = Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
            image.save(path, quality=85)
        else:
            os.link(paths[number % distinct], path)


def path_of(folder: Path, number: int) -> Path:
    return folder / f"{number // IN_A_FOLDER:04}" / f"{number:08}.jpg"


class JpegFiles(Dataset[tuple[Tensor, int]]):
    """Images, mirrored by chance."""

    def __init__(self, folder: Path, *, files: int = FILES) -> None:
        self._folder, self._files = folder, files

    def __len__(self) -> int:
        return self._files

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        with Image.open(path_of(self._folder, index)) as file:
            pixels = np.array(file.convert("RGB"))
        image = torch.from_numpy(pixels).permute(2, 0, 1).float().div_(255)
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return image, index % CLASSES


def make_network() -> nn.Module:
    """Small, so that it trains faster than one process can read."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(256, CLASSES),
    )
