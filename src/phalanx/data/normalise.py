"""The mean and deviation of a data set's channels, to the same bits on any number of ranks.

Samples are counted in chunks of a fixed size, each by one rank, and the chunks are put together in
their order by all of them.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from phalanx.data.batches import cut
from phalanx.data.split import Split
from phalanx.data.transforms import Normalise

_CHUNK = 1024


def measure(split: Split, *, rank: int, size: int, add_up: Callable[[Tensor], None]) -> Normalise:
    """Collective. What brings each channel of a split to mean 0 and deviation 1.

    A channel is a sample's first dimension: a colour of images, a column of tables. One that never
    varies is only moved. `add_up` adds a tensor over all ranks, in place.
    """
    count = -(-len(split) // _CHUNK)
    channels = split.input_shape[0] if split.input_shape else 1
    # For each chunk and channel: the mean, and the squares of the distances from it.
    moments = torch.zeros(count, 2, channels, dtype=torch.float64)
    mine = cut(count, size)[rank]
    for chunk in range(mine.start, mine.stop):
        moments[chunk] = _moments(split, _indices(split, chunk), channels)
    add_up(moments)  # to zeros, which changes nothing
    values = torch.Size(split.input_shape[1:]).numel()
    mean, squares = moments[0]
    done = len(_indices(split, 0)) * values
    for chunk in range(1, count):
        more = len(_indices(split, chunk)) * values
        distance = moments[chunk, 0] - mean
        mean = mean + distance * (more / (done + more))
        squares = squares + moments[chunk, 1] + distance.square() * (done * more / (done + more))
        done += more
    deviation = (squares / done).sqrt()
    return Normalise(mean, torch.where(deviation > 0, deviation, torch.ones_like(deviation)))


def _indices(split: Split, chunk: int) -> Tensor:
    return torch.arange(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(split)))


def _moments(split: Split, indices: Tensor, channels: int) -> Tensor:
    inputs = split.take(indices, dtype=torch.float64).inputs
    by_channel = inputs.reshape(len(indices), channels, -1).transpose(0, 1).reshape(channels, -1)
    variance, mean = torch.var_mean(by_channel, dim=1, correction=0)
    return torch.stack([mean, variance * by_channel.shape[1]])
