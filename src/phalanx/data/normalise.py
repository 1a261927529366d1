"""The mean and deviation of a data set's channels, to the same bits on any number of ranks.

Samples are counted in chunks of a fixed size, each by one rank, and the chunks are put together in
their order by all of them. A chunk of large samples is counted piece by piece.
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from phalanx.data.batches import cut
from phalanx.data.split import Split
from phalanx.data.transforms import Normalise

# All ranks hold the moments of all chunks: chunks are of many samples, however large those are.
_CHUNK = 1024
_PIECE_BYTES = 32 << 20

# What float32 holds to the last bit; other numbers can be dates, which differ in their last digits.
_IN_FLOAT32 = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16),
    *(torch.float16, torch.bfloat16, torch.float32),
)


class _Moments(NamedTuple):
    """Of so many values a channel: the mean, and the squares of the distances from it, added up."""

    values: int
    mean: Tensor
    squares: Tensor


def measure(split: Split, *, rank: int, size: int, add_up: Callable[[Tensor], None]) -> Normalise:
    """Collective. What brings each channel of a split to mean 0 and deviation 1.

    A channel is a sample's first dimension: a colour of images, a column of tables. One that never
    varies is only moved. `add_up` adds a tensor over all ranks, in place.
    """
    chunks = _ranges(range(len(split)), step=_CHUNK)
    channels = split.input_shape[0] if split.input_shape else 1
    moments = torch.zeros(len(chunks), 2, channels, dtype=torch.float64)
    mine = cut(len(chunks), size)[rank]
    for number in range(mine.start, mine.stop):
        counted = _moments(split, chunks[number], channels)
        moments[number] = torch.stack([counted.mean, counted.squares])
    add_up(moments)  # to zeros, which changes nothing
    values = math.prod(split.input_shape[1:])
    whole = reduce(
        _merged, (_Moments(len(chunks[n]) * values, *moments[n]) for n in range(len(chunks)))
    )
    deviation = (whole.squares / whole.values).sqrt()
    deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
    precision = torch.float32 if split.stored_dtype in _IN_FLOAT32 else torch.float64
    return Normalise(whole.mean, deviation, precision=precision)


def _ranges(whole: range, *, step: int) -> list[range]:
    """A range in ranges of a size, the last of which may be smaller."""
    return [whole[start : start + step] for start in range(0, len(whole), step)]


def _moments(split: Split, chunk: range, channels: int) -> _Moments:
    # By the size of a sample alone: pieces must be the same on any number of ranks.
    values = max(1, math.prod(split.stored_shape), math.prod(split.input_shape))
    step = max(1, _PIECE_BYTES // (values * torch.float64.itemsize))
    pieces = _ranges(chunk, step=step)
    return reduce(_merged, (_moments_of_piece(split, piece, channels) for piece in pieces))


def _moments_of_piece(split: Split, piece: range, channels: int) -> _Moments:
    indices = torch.arange(piece.start, piece.stop)
    inputs = split.take(indices, dtype=torch.float64).inputs.to(torch.float64)
    by_channel = inputs.reshape(len(indices), channels, -1).transpose(0, 1).reshape(channels, -1)
    variance, mean = torch.var_mean(by_channel, dim=1, correction=0)
    values = by_channel.shape[1]
    return _Moments(values, mean, variance * values)


def _merged(one: _Moments, other: _Moments) -> _Moments:
    """The moments of both; neither mean has to be near zero for that."""
    values = one.values + other.values
    distance = other.mean - one.mean
    mean = one.mean + distance * (other.values / values)
    between = distance.square() * (one.values * other.values / values)
    return _Moments(values, mean, one.squares + other.squares + between)
