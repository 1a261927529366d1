"""The order in which a Trainer takes samples, for a plain loop that is to be compared with it."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import Sampler

from phalanx.data.batches import order


class SameOrder(Sampler[int]):
    """What `shuffle=True` would be in a program of one's own."""

    def __init__(self, data: Any, *, seed: int = 0) -> None:
        self._count, self._seed, self._epoch = len(data), seed, -1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        self._epoch += 1
        return iter(order(self._count, seed=self._seed, epoch=self._epoch).tolist())
