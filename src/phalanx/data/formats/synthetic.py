"""Samples that are made up when they are needed, of any shape and number, in constant memory.

A sample is the pattern of its class, which is coarse enough for convolutions to see, and noise.
Both depend on the seed and the index alone. In a regression every value has a pattern, which counts
as often as the value says, from -1 to 1; every label has one that is there or not.
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
from phalanx.data.targets.tasks import CLASSIFICATION, MULTI_LABEL, REGRESSION

_PATTERN = (5,)
_NOISE = (6,)
_TARGETS = (7,)
#: The patches of a pattern, over all dimensions.
_PATCHES = 64
#: Half the width of noise of variance 1, evenly spread.
_SPREAD = math.sqrt(3)


def load(
    _folder: Path,
    *,
    shape: str = "3x32x32",
    classes: int | None = None,
    samples: int = 50_000,
    seed: int = 0,
    task: str | None = None,
) -> Dataset:
    """So many training samples, and a fifth as many to test, of classes of equal size."""
    sizes = parse_shape(shape, option="shape")
    task = task or CLASSIFICATION
    columns = classes or (1 if task == REGRESSION else 10)

    def split(start: int, count: int) -> Split:
        targets = _targets(task, start, count, columns=columns, seed=seed)
        return Split(Noisy(sizes, targets, classes=columns, seed=seed, start=start), targets)

    word = {REGRESSION: "value ", MULTI_LABEL: "label "}.get(task, "")
    names = tuple(f"{word}{number}" for number in range(columns))
    tests = max(samples // 5, 1)
    return Dataset("synthetic", split(0, samples), split(samples, tests), names, task=task)


def _targets(task: str, start: int, count: int, *, columns: int, seed: int) -> Tensor:
    """Classes in turn, values from -1 to 1, or labels of which about every third is there."""
    if task == CLASSIFICATION:
        return torch.arange(start, start + count) % columns
    places = np.arange(start * columns, (start + count) * columns).astype(np.uint64)
    shares = (bits(places, seed, purpose=_TARGETS) >> np.uint64(40)) / np.float64(1 << 24)
    values = 2 * shares - 1 if task == REGRESSION else (shares < 1 / 3).astype(np.float64)
    return torch.from_numpy(values.reshape(count, columns))


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

    def _clean(self, indices: Tensor) -> Array:
        """The patterns of some samples, patch by patch."""
        targets = self._targets[indices].numpy()
        if targets.ndim == 1:
            return np.asarray(self._patterns[targets])
        clean = np.zeros((len(targets), self._patterns.shape[1]), np.float32)
        # One by one: the last bits of a matrix product depend on how many samples there are.
        for column, pattern in zip(targets.T.astype(np.float32), self._patterns, strict=True):
            clean += column[:, None] * pattern
        return clean

    def take(self, indices: Tensor) -> Tensor:
        size = len(self._patch_of)
        first: Bits = (indices.numpy().astype(np.uint64) + np.uint64(self._start)) * np.uint64(size)
        positions: Bits = first[:, None] + self._within
        drawn = bits(positions, self._seed, purpose=_NOISE)
        # 24 bits are what a float32 holds exactly.
        noise = (drawn >> np.uint64(40)).astype(np.float32)
        noise *= np.float32(2 * _SPREAD / (1 << 24))
        noise -= np.float32(_SPREAD)
        noise += self._clean(indices)[:, self._patch_of]
        return torch.from_numpy(noise).reshape(len(indices), *self.shape)
