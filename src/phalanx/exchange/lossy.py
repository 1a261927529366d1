"""Sums that lose something, and keep what they lose for the next step (error feedback)."""

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from phalanx.exchange.sums import Sum

#: What is worth compressing: the rest has no more than 16 bits, or no order.
COMPRESSIBLE = (torch.float32, torch.float64)


class LossySum(Sum):
    """What it keeps between steps is a part of a training's state."""

    @abstractmethod
    def lost(self) -> Tensor | None:
        """What this rank has still to add, in the places of the tensor; a copy. None if nothing is
        ever kept."""

    @abstractmethod
    def take_lost(self, lost: Tensor, *, of_all: bool) -> None:
        """Go on as if this had been lost: by this rank, or by all ranks together, in which case
        each takes a share that no other does."""

    def factors(self) -> Iterator[tuple[int, Tensor]]:
        """What else is kept, the same on all ranks, each for a stretch of the tensor that begins
        with an element of this number. It may be written to."""
        return iter(())
