"""What is done to samples when they are taken: fixed steps, and random ones for training.

A random step draws from the seed, the epoch and the sample's index, and so does the same to a
sample whichever rank takes it, in whatever company.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from phalanx.data.seeding import Bits, bits

_FLIP = (3,)
_CROP = (4,)
_WINDOW = ((5,), (6,), (7,))


class Draw(NamedTuple):
    """What random steps depend on, besides the index of a sample."""

    seed: int
    epoch: int

    def bits(self, indices: Tensor, purpose: tuple[int, ...]) -> Bits:
        """64 random bits a sample."""
        positions = indices.numpy().astype(np.uint64)
        return bits(positions, self.seed, self.epoch, purpose=purpose)

    def some(self, indices: Tensor, purpose: tuple[int, ...], probability: float) -> Tensor:
        """Whether a sample is among those that something is done to."""
        least = np.uint64(min(round((1 - probability) * 2.0**64), 2**64 - 1))
        return torch.from_numpy((self.bits(indices, purpose) >= least).astype(np.bool_))

    def numbers(self, indices: Tensor, purpose: tuple[int, ...], below: Tensor) -> Tensor:
        """A whole number from 0 for each sample, below each one's own bound."""
        drawn = (self.bits(indices, purpose) >> np.uint64(32)).astype(np.int64)
        return torch.from_numpy(drawn) % below


class Transform(ABC):
    """One step, on floating-point inputs [n, *shape]."""

    #: The least type of numbers that inputs are to be in before this step, if it matters.
    precision: torch.dtype | None = None

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """What becomes of the shape of a sample."""
        return shape

    @abstractmethod
    def apply(self, inputs: Tensor, indices: Tensor, draw: Draw | None) -> Tensor:
        """The inputs afterwards; those given may be used up. No draw, nothing random."""


@final
class Resize(Transform):
    """Images of another size, each pixel weighed from all that it stands for."""

    precision = torch.float32

    def __init__(self, height: int, width: int) -> None:
        self._size = (height, width)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], *self._size)

    def apply(self, inputs: Tensor, indices: Tensor, draw: Draw | None) -> Tensor:
        if len(inputs) == 0:  # which torch refuses
            return inputs.new_empty((0, *self.shape(tuple(inputs.shape[1:]))))
        return F.interpolate(inputs, self._size, mode="bilinear", antialias=True)


@final
class Pool(Transform):
    """Smaller images: each pixel the mean of the area that it stands for."""

    precision = torch.float32

    def __init__(self, height: int, width: int) -> None:
        self._size = (height, width)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (shape[0], *self._size)

    def apply(self, inputs: Tensor, indices: Tensor, draw: Draw | None) -> Tensor:
        if len(inputs) == 0:
            return inputs.new_empty((0, *self.shape(tuple(inputs.shape[1:]))))
        return F.adaptive_avg_pool2d(inputs, self._size)


@final
class Normalise(Transform):
    """Less a mean, over a deviation: one of each a channel, in float64.

    Inputs can be far from zero and differ by little, as years do, so that a training's own type
    would make them all the same: they are normalised in no less than `precision`.
    """

    def __init__(
        self, mean: Tensor, deviation: Tensor, *, precision: torch.dtype = torch.float32
    ) -> None:
        self.mean = mean
        self.deviation = deviation
        self.precision = precision

    def apply(self, inputs: Tensor, indices: Tensor, draw: Draw | None) -> Tensor:
        shape = (-1, *([1] * (inputs.dim() - 2)))
        inputs.sub_(self.mean.to(inputs.dtype).reshape(shape))
        return inputs.div_(self.deviation.to(inputs.dtype).reshape(shape))


@final
class Flip(Transform):
    """Every other image, or as many as `probability` says, mirrored left to right by chance."""

    def __init__(self, probability: float = 0.5) -> None:
        self._probability = probability

    def apply(self, inputs: Tensor, indices: Tensor, draw: Draw | None) -> Tensor:
        if draw is None:
            return inputs
        chosen = draw.some(indices, _FLIP, self._probability)
        return torch.where(chosen[:, None, None, None], inputs.flip(-1), inputs)


@final
class Crop(Transform):
    """Images moved by up to so many pixels each way, by chance; what they leave is zero."""

    def __init__(self, padding: int) -> None:
        self._padding = padding

    def apply(self, inputs: Tensor, indices: Tensor, draw: Draw | None) -> Tensor:
        if draw is None or len(inputs) == 0:
            return inputs
        height, width = inputs.shape[2:]
        drawn = draw.bits(indices, _CROP)
        choices = np.uint64(2 * self._padding + 1)
        down = torch.from_numpy(((drawn >> np.uint64(32)) % choices).astype(np.int64))
        right = torch.from_numpy(((drawn & np.uint64(0xFFFFFFFF)) % choices).astype(np.int64))
        padded = F.pad(inputs, (self._padding,) * 4)
        # Every place a crop can have is a view; only the chosen ones are copied.
        places = padded.unfold(2, height, 1).unfold(3, width, 1)
        return places[torch.arange(len(inputs)), :, down, right]


@final
class CropWindow(Transform):
    """PyDTNN's crop of some images: a window by chance, and the image moved so that it is away.

    What lies above and to the left of the window, and below and to the right of it, becomes zero.
    What leaves the image on one side comes back on the other.
    """

    def __init__(self, size: int, probability: float) -> None:
        self._size, self._probability = size, probability

    def apply(self, inputs: Tensor, indices: Tensor, draw: Draw | None) -> Tensor:
        if draw is None or len(inputs) == 0:
            return inputs
        chosen = draw.some(indices, _WINDOW[0], self._probability)
        places = []
        for side, purpose in zip(inputs.shape[2:], _WINDOW[1:], strict=True):
            size = min(self._size, side)
            first = draw.numbers(indices, purpose, torch.tensor(max(side - size, 1)))
            room = torch.tensor(max(side - size, 1))
            by = draw.numbers(indices, (*purpose, 1), room) - first
            places.append((first, first + size, by, torch.arange(side)))
        (top, bottom, down, rows), (left, right, aside, columns) = places
        before = (rows < top[:, None])[:, :, None] & (columns < left[:, None])[:, None, :]
        behind = (rows >= bottom[:, None])[:, :, None] & (columns >= right[:, None])[:, None, :]
        kept = inputs.masked_fill((before | behind)[:, None], 0)
        sample = torch.arange(len(inputs))[:, None, None]
        row = (rows - down[:, None]) % len(rows)
        column = (columns - aside[:, None]) % len(columns)
        turned = kept.permute(0, 2, 3, 1)[sample, row[:, :, None], column[:, None, :]]
        return torch.where(chosen[:, None, None, None], turned.permute(0, 3, 1, 2), inputs)
