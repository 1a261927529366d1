"""Global batches in an order that the seed and the epoch fix, cut alike by every rank."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from phalanx.data.seeding import generator
from phalanx.data.split import Samples, Split
from phalanx.errors import UsageError


def cut(count: int, parts: int) -> list[slice]:
    """Cut `count` things in contiguous parts, the larger first, sizes differing by at most one.

    With fewer things than parts the last parts are empty.
    """
    if parts < 1:
        raise UsageError(f"a batch is cut in 1 part or more, got {parts}")
    size, larger = divmod(count, parts)
    bounds = [index * size + min(index, larger) for index in range(parts + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def order(count: int, *, seed: int, epoch: int) -> Tensor:
    """A permutation of `count` indices that depends on the seed and the epoch alone."""
    return torch.from_numpy(generator(seed, epoch).permutation(count))


def batch_count(count: int, batch_size: int) -> int:
    """How many batches an epoch of `count` samples has; the last may be smaller."""
    if batch_size < 1:
        raise UsageError(f"the batch size must be 1 or more, got {batch_size}")
    return -(-count // batch_size)


@dataclass(frozen=True, eq=False)
class Batch:
    """A global batch, the same on every rank; samples are copied only when a part is taken."""

    source: Split
    indices: Tensor
    dtype: torch.dtype = torch.float32

    @property
    def size(self) -> int:
        """The number of samples over all parts."""
        return self.indices.shape[0]

    def part(self, index: int, of: int) -> Samples:
        """The samples of one part when the batch is `cut` in `of` parts; there may be none."""
        if not 0 <= index < of:
            raise UsageError(f"a batch cut in {of} has parts 0 to {of - 1}, got {index}")
        size, larger = divmod(self.size, of)
        start = index * size + min(index, larger)  # as `cut` has it, for one part alone
        return self.source.take(
            self.indices[start : start + size + (index < larger)], dtype=self.dtype
        )

    def whole(self) -> Samples:
        """All samples of the batch."""
        return self.source.take(self.indices, dtype=self.dtype)


def batches(
    split: Split,
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    dtype: torch.dtype = torch.float32,
    shuffle: bool = True,
) -> Iterator[Batch]:
    """One epoch's global batches: every sample once, the last batch perhaps smaller."""
    count = batch_count(len(split), batch_size)
    indices = order(len(split), seed=seed, epoch=epoch) if shuffle else torch.arange(len(split))
    pieces = (indices[number * batch_size :][:batch_size] for number in range(count))
    return (Batch(split, piece, dtype) for piece in pieces)
