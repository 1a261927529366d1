"""Pieces of the weights, each exchanged and stepped by itself."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, final

import torch
from torch import Tensor

from phalanx.exchange.flat import FlatBlock
from phalanx.exchange.stream import Stream
from phalanx.exchange.sums import Sum


class Place(NamedTuple):
    """Some consecutive weights in the flat memory of a block of this number."""

    block: int
    where: slice


def cut_in_pieces(blocks: Sequence[FlatBlock], count: int) -> list[list[Place]]:
    """All weights in so many pieces of about the same number of elements."""
    total = sum(block.layout.length for block in blocks)
    bounds = [total * number // count for number in range(count + 1)]
    return [list(_places(blocks, *ends)) for ends in pairwise(bounds)]


def _places(blocks: Sequence[FlatBlock], start: int, stop: int) -> Iterator[Place]:
    """What lies from one element to another, counted through all blocks."""
    first = 0
    for number, block in enumerate(blocks):
        low, high = max(start, first) - first, min(stop, first + block.layout.length) - first
        if low < high:
            yield Place(number, slice(low, high))
        first += block.layout.length


@dataclass(frozen=True)
class OuterOptimizer:
    """SGD, with the mean way of all ranks as its gradient, the other way round."""

    learning_rate: float
    momentum: float
    nesterov: bool

    def step(self, way: Tensor, changes: Tensor | None) -> Tensor:
        """How far to go, in the memory of `way`; `changes` is the momentum's decaying sum."""
        if changes is not None:
            changes.mul_(self.momentum).add_(way)
            if self.nesterov:
                way.add_(changes, alpha=self.momentum)
            else:
                way.copy_(changes)
        return way if self.learning_rate == 1 else way.mul_(self.learning_rate)


@dataclass(eq=False)
class Stretch:
    """The weights of a place, and what is kept about them."""

    values: Tensor
    #: The last weights that all ranks have had in common.
    common: Tensor
    changes: Tensor | None
    #: Where ways from the common weights are added up: the values' own memory, if nobody trains
    #: meanwhile.
    way: Tensor
    #: What this rank's weights were when it sent its way.
    left: Tensor | None = None

    def leave(self) -> None:
        """Work out how far this rank has come."""
        if self.way.data_ptr() != self.values.data_ptr():
            self.left = self.values.clone()
        torch.sub(self.values, self.common, out=self.way)

    def take(self, outer: OuterOptimizer, *, trained: bool) -> None:
        """Take the outer step by the mean way. What this rank has `trained` since it sent its own
        is added to the new weights, and counts in its next way."""
        self.common.add_(outer.step(self.way, self.changes))
        if trained and self.left is not None:
            self.values.add_(torch.sub(self.common, self.left, out=self.left))
        else:
            self.values.copy_(self.common)
        self.left = None


@final
class Piece:
    """Some stretches that are exchanged together."""

    def __init__(
        self,
        stretches: Sequence[Stretch],
        sums: Sequence[Sum],
        *,
        ranks: int,
        outer: OuterOptimizer,
        threaded: bool,
    ) -> None:
        """`sums`: over the ways of the stretches, among so many ranks."""
        self.stretches = stretches
        self._ranks, self._outer = ranks, outer
        self._stream = Stream(sums, threaded=threaded)
        self._arrived = True

    def start(self) -> None:
        """Collective. Send this rank's way, without waiting for anybody."""
        for stretch in self.stretches:
            stretch.leave()
        self._arrived = False
        for _ in self.stretches:
            self._stream.start_next()

    def arrive(self) -> None:
        """Collective. Wait for the mean way, if it is not there."""
        if self._arrived:
            return
        self._stream.finish()
        for stretch in self.stretches:
            stretch.way.div_(self._ranks)
        self._arrived = True

    def take(self, *, trained: bool) -> None:
        """Collective. Step; whether this rank has `trained` since it started."""
        self.arrive()
        for stretch in self.stretches:
            stretch.take(self._outer, trained=trained)

    def close(self) -> None:
        """End the thread."""
        self._stream.close()
