"""Overlap: the exchange of gradients goes on while the backward pass computes the next ones.

The flat gradient is cut into buckets of whole parameters, from its end, because the backward pass
comes to the last layers first. As soon as all gradients of a bucket are there, its exchange starts;
but in the order of the buckets, which is the same on all ranks whatever their samples do.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, final

from torch import Tensor

from phalanx.errors import UsageError
from phalanx.exchange.buckets import plan_buckets
from phalanx.exchange.flat import FlatBlock
from phalanx.exchange.stream import Stream
from phalanx.exchange.sums import Sums


@dataclass(frozen=True, eq=False)
class BlockBucket:
    """A bucket of parameters that follow each other in flat storage."""

    block: FlatBlock
    indices: tuple[int, ...]
    #: The piece of the flat gradient that is theirs.
    where: slice

    @property
    def gradients(self) -> Tensor:
        """That piece of the first row."""
        return self.block.gradients[self.where]


def cut_in_buckets(block: FlatBlock, most_bytes: int) -> Iterator[BlockBucket]:
    """A block's buckets, from its end: of about so many bytes, or of one larger parameter."""
    starts = [*block.layout.starts, block.layout.length]
    sizes = [stop - start for start, stop in pairwise(starts)]
    for bucket in plan_buckets(sizes, [block.layout.dtype] * len(sizes), most_bytes=most_bytes):
        first, last = bucket.indices[0], bucket.indices[-1]
        yield BlockBucket(block, bucket.indices, slice(starts[first], starts[last + 1]))


@final
class Overlap:
    """Starts the sum of each bucket out of the backward pass that completes it.

    The first sums must be those of the buckets, in the same order. With `careful` the first
    backward pass starts nothing, but shows whether gradients come once and for all in this model;
    if some do not, no pass ever starts anything.
    """

    def __init__(
        self,
        stream: Stream | Sums,
        buckets: Sequence[BlockBucket],
        *,
        row: int = 0,
        careful: bool = False,
    ) -> None:
        """`row`: where this rank's gradients are."""
        self._stream = stream
        self._buckets = buckets
        self._row = row
        self._seen: Counter[tuple[int, int]] | None = Counter() if careful else None
        self._starts = not careful
        #: Whether passes start nothing for now, though they could.
        self.paused = False
        self._missing: list[set[int]] = []
        self._hooks: list[Any] = []
        for number, bucket in enumerate(buckets):
            for index in bucket.indices:
                arrived = partial(self._arrived, number, index)
                parameter = bucket.block.layout.parameters[index]
                hook = parameter.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]
                self._hooks.append(hook)

    @property
    def possible(self) -> bool:
        """Whether passes may start sums, as far as is known."""
        return self._starts

    def watch(self) -> None:
        """The next backward pass is the last one before `finish`: what it completes may go."""
        self._missing = [set(bucket.indices) for bucket in self._buckets]

    def finish(self) -> None:
        """Collective. Exchange what has not been; afterwards all sums are there."""
        self._missing = []
        if self._seen:
            self._starts = max(self._seen.values()) == 1
            self._seen = None
        self._stream.finish()

    def close(self) -> None:
        """Have backward passes leave this alone from now on."""
        for hook in self._hooks:
            hook.remove()
        if isinstance(self._stream, Stream):
            self._stream.close()

    def _arrived(self, number: int, index: int, parameter: Tensor) -> None:
        if not self._missing:
            return
        if self._seen is not None:
            self._seen[number, index] += 1
        if self.paused or not self._starts:
            return
        if number < self._stream.started:
            raise UsageError(
                f"overlap: a parameter of shape {list(parameter.shape)} got a gradient twice in "
                "one backward pass (through reentrant checkpointing?), the second time after its "
                "exchange had begun; train this model without overlap"
            )
        if parameter.grad is self._buckets[number].block.row_views[self._row].tensors[index]:
            self._missing[number].discard(index)
        # else something has replaced the view: the gradient is put in its place after the pass
        while self._stream.started < len(self._buckets):
            if self._missing[self._stream.started]:
                break
            self._stream.start_next()
