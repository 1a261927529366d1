"""Resizing and pooling, done once instead of every time that a sample is taken."""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from phalanx.data.batches import cut
from phalanx.data.split import Split
from phalanx.data.transforms import Transform

#: A set that would take more bytes, on every rank, stays as it is stored.
_MOST_BYTES = 256 << 20
_CHUNK = 1024


class Ranks(Protocol):
    """What is needed of a communicator."""

    rank: int
    size: int

    def allreduce(self, buffer: Tensor) -> None:
        """Collective. Add up all buffers, into every rank's own."""


def materialised(
    split: Split, steps: Sequence[Transform], *, dtype: torch.dtype, comm: Ranks
) -> Split:
    """Collective. The split with these steps, none of them random, as its first.

    They are linear, and so may come before the split's factor. Each rank takes its share of the
    samples, and all get the same bits.
    """
    later = split.transformed(steps)
    dtype = torch.promote_types(dtype, torch.float32)
    if not steps or split.transforms or split.source is not None:
        return later
    shape = (len(split), *later.input_shape)
    if math.prod(shape) * dtype.itemsize > _MOST_BYTES:
        return later
    inputs = torch.zeros(shape, dtype=dtype)
    mine = cut(len(split), comm.size)[comm.rank]
    for start in range(mine.start, mine.stop, _CHUNK):
        indices = torch.arange(start, min(start + _CHUNK, mine.stop))
        some = split.fetch(indices).to(dtype)
        for step in steps:
            some = step.apply(some, indices, None)
        # Added, as by other ranks: a negative zero becomes the same one everywhere.
        inputs[start : start + len(indices)] += some
    if comm.size > 1:
        comm.allreduce(inputs)
    return split.of(inputs, split.targets)
