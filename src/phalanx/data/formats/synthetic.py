"""Samples that are made up when they are needed, of any shape and number, in constant memory.

A sample is the pattern of its class, which is coarse enough for convolutions to see, and noise.
Both depend on the seed and the index alone.
"""

import math
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

from phalanx.data.arrays import Array
from phalanx.data.options import parse_shape
from phalanx.data.seeding import Bits, bits, generator
from phalanx.data.source import Source
from phalanx.data.split import Dataset, Split

_PATTERN = (5,)
_NOISE = (6,)
#: The patches of a pattern, over all dimensions.
_PATCHES = 64
#: Half the width of noise of variance 1, evenly spread.
_SPREAD = math.sqrt(3)


def load(
    _folder: Path,
    *,
    shape: str = "3x32x32",
    classes: int = 10,
    samples: int = 50_000,
    seed: int = 0,
) -> Dataset:
    """So many training samples, and a fifth as many to test, of classes of equal size."""
    sizes = parse_shape(shape, option="shape")
    tests = max(samples // 5, 1)

    def split(start: int, count: int) -> Split:
        targets = torch.arange(start, start + count) % classes
        return Split(Noisy(sizes, targets, classes=classes, seed=seed, start=start), targets)

    names = tuple(map(str, range(classes)))
    return Dataset("synthetic", split(0, samples), split(samples, tests), names)


@final
class Noisy(Source):
    """The patterns of classes, with noise."""

    def __init__(
        self, shape: tuple[int, ...], targets: Tensor, *, classes: int, seed: int, start: int
    ) -> None:
        self.shape = shape
        self._targets = targets
        self._seed = seed
        self._start = start
        patches = [min(size, round(_PATCHES ** (1 / len(shape)))) for size in shape]
        drawn = generator(seed, purpose=_PATTERN).uniform(-1, 1, (classes, math.prod(patches)))
        self._patterns: Array = drawn.astype(np.float32)
        # The patch that each value of a sample lies in.
        axes = [np.arange(size) * count // size for size, count in zip(shape, patches, strict=True)]
        grid = np.meshgrid(*axes, indexing="ij")
        self._within: Bits = np.arange(math.prod(shape)).astype(np.uint64)
        self._patch_of = np.ravel_multi_index(grid, patches).reshape(-1)

    def __len__(self) -> int:
        return len(self._targets)

    def take(self, indices: Tensor) -> Tensor:
        size = len(self._patch_of)
        first: Bits = (indices.numpy().astype(np.uint64) + np.uint64(self._start)) * np.uint64(size)
        positions: Bits = first[:, None] + self._within
        drawn = bits(positions, self._seed, purpose=_NOISE)
        # 24 bits are what a float32 holds exactly.
        noise = (drawn >> np.uint64(40)).astype(np.float32)
        noise *= np.float32(2 * _SPREAD / (1 << 24))
        noise -= np.float32(_SPREAD)
        noise += self._patterns[self._targets[indices].numpy()][:, self._patch_of]
        return torch.from_numpy(noise).reshape(len(indices), *self.shape)
