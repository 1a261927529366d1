"""Global batches in an order that the seed and the epoch fix, cut alike by every rank."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from phalanx.data.seeding import generator
from phalanx.data.split import Samples, Split
from phalanx.data.transforms import Draw
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


@final
@dataclass(eq=False, slots=True)
class Batch:
    """A global batch, the same on every rank; samples are copied only when a part is taken.

    `draw` is what random transforms depend on. If there is a `following` batch, whoever takes a
    part will want the same part of that one next, and it is fetched meanwhile. Samples are made in
    CPU memory; those of a part then move to the `device`, if there is one.
    """

    source: Split
    indices: Tensor
    dtype: torch.dtype = torch.float32
    draw: Draw | None = None
    following: "Batch | None" = None
    device: torch.device | None = None
    #: How many steps of the training came before it: what random numbers depend on, too.
    step: int = 0
    _ahead: dict[tuple[int, int], Future[Tensor]] | None = field(default=None, init=False)

    @property
    def size(self) -> int:
        """The number of samples over all parts."""
        return self.indices.shape[0]

    def part(self, index: int, of: int) -> Samples:
        """The samples of one part when the batch is `cut` in `of` parts; there may be none."""
        if not 0 <= index < of:
            raise UsageError(f"a batch cut in {of} has parts 0 to {of - 1}, got {index}")
        fetched = None if self._ahead is None else self._ahead.pop((index, of), None)
        samples = self.source.take(
            self._indices_of(index, of),
            dtype=self.dtype,
            draw=self.draw,
            fetched=None if fetched is None else fetched.result(),
        )
        if self.following is not None:
            self.following._fetch_ahead(index, of)
        return samples if self.device is None else samples.to(self.device)

    def whole(self) -> Samples:
        """All samples of the batch."""
        return self.part(0, of=1)

    def _indices_of(self, index: int, of: int) -> Tensor:
        size, larger = divmod(self.indices.shape[0], of)
        start = index * size + min(index, larger)  # as `cut` has it, for one part alone
        return self.indices[start : start + size + (index < larger)]

    def _fetch_ahead(self, index: int, of: int) -> None:
        if self._ahead is None:
            self._ahead = {}
        if (index, of) not in self._ahead:
            indices = self._indices_of(index, of)
            self._ahead[index, of] = _thread().submit(self.source.fetch, indices)


def batches(
    split: Split,
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
    shuffle: bool = True,
    seen: int = 0,
    step: int = 0,
) -> Iterator[Batch]:
    """One epoch's global batches: every sample once, the last batch perhaps smaller.

    An epoch that was interrupted goes on behind the samples that were `seen`. `step` is the number
    that the first batch has in the training.
    """
    count = batch_count(len(split) - seen, batch_size)
    indices = order(len(split), seed=seed, epoch=epoch) if shuffle else torch.arange(len(split))
    draw = Draw(seed, epoch)
    one_by_one = (
        Batch(
            split,
            indices[seen + number * batch_size :][:batch_size],
            dtype,
            draw,
            device=device,
            step=step + number,
        )
        for number in range(count)
    )
    return one_by_one if split.source is None else _linked(one_by_one)


def _linked(one_by_one: Iterator[Batch]) -> Iterator[Batch]:
    """The batches, each of which knows the one that follows."""
    current = next(one_by_one, None)
    while current is not None:
        current.following = following = next(one_by_one, None)
        yield current
        current = following


@cache
def _thread() -> ThreadPoolExecutor:
    """The thread that fetches ahead; a fork would not do, beside MPI."""
    return ThreadPoolExecutor(1, thread_name_prefix="fetch")
