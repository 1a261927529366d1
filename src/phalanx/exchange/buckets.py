"""Buckets: which gradients travel together. A plan depends on the parameters alone."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import torch


class Bucket(NamedTuple):
    """Some parameters of one dtype, by number, whose gradients are one flat tensor."""

    #: In rising order, as they lie in the tensor.
    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    dtype: torch.dtype

    @property
    def length(self) -> int:
        """Elements in all."""
        return sum(self.sizes)

    @property
    def starts(self) -> list[int]:
        """Where each parameter's gradient begins, if nothing lies between them."""
        return [sum(self.sizes[:place]) for place in range(len(self.sizes))]


def plan_buckets(
    sizes: Sequence[int],
    dtypes: Sequence[torch.dtype],
    *,
    most_bytes: int,
    groups: Sequence[Sequence[int]] = (),
    separate: AbstractSet[int] = frozenset(),
) -> list[Bucket]:
    """Buckets from the last parameter to the first, as backward passes come to them.

    A bucket has at most so many bytes, or one larger parameter, or those of a dtype in one of the
    `groups`, whatever their size. What is to be `separate` is in none.
    """
    groups = [[index for index in group if index not in separate] for group in groups]
    grouped = {index for group in groups for index in group}
    piles = [
        [index for index in group if dtypes[index] == dtype]
        for group in groups
        for dtype in dict.fromkeys(dtypes[index] for index in group)
    ]
    open_piles: dict[torch.dtype, tuple[list[int], int]] = {}
    for index in reversed(range(len(sizes))):
        if index in separate or index in grouped:
            continue
        dtype = dtypes[index]
        pile, length = open_piles.get(dtype, ([], 0))
        length += sizes[index]
        if not pile or length > most_bytes // dtype.itemsize:
            pile, length = [], sizes[index]
            piles.append(pile)
        pile.append(index)
        open_piles[dtype] = pile, length
    piles.sort(key=max, reverse=True)
    return [_bucket(sorted(pile), sizes, dtypes) for pile in piles]


def _bucket(pile: list[int], sizes: Sequence[int], dtypes: Sequence[torch.dtype]) -> Bucket:
    return Bucket(tuple(pile), tuple(sizes[index] for index in pile), dtypes[pile[0]])
