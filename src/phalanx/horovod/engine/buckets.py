"""Which gradients travel together: a plan that depends on the parameters alone."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import torch

#: Bytes of a bucket: large enough for the network, small enough to begin early.
BUCKET_BYTES = 4 << 20


class Details(NamedTuple):
    """What the ranks' optimizers say of themselves when they open a channel."""

    names: tuple[str, ...]
    #: What must be the same everywhere, in words.
    options: str
    #: Parameters (by number) that go together, whatever their size.
    groups: tuple[tuple[int, ...], ...]
    #: Parameters that this rank cannot put in a bucket: their gradients are sparse.
    apart: tuple[int, ...]
    #: Parameters whose gradients came sparse, in a bucket or not.
    sparse: tuple[int, ...]
    #: Parameters whose memory is in that order on this rank.
    channels_last: tuple[int, ...]
    #: Whether float32 travels as float16.
    halved: bool
    #: What sums are divided by.
    divisor: float
    #: The channel that this one takes the place of, and how many steps this rank has begun in it.
    before: str
    steps: int


class Bucket(NamedTuple):
    """Some parameters of one dtype, by number, whose gradients are one flat tensor."""

    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    dtype: torch.dtype
    #: What the tensor travels as.
    wire: torch.dtype


def plan_buckets(
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[str],
    *,
    details: Details,
    apart: AbstractSet[int],
) -> list[Bucket]:
    """Buckets from the last parameter to the first, as backward passes come to them."""
    sizes = [torch.Size(shape).numel() for shape in shapes]
    groups = [[one for one in group if one not in apart] for group in details.groups]
    grouped = {index for group in groups for index in group}
    piles: list[list[int]] = []
    for group in groups:
        for dtype in dict.fromkeys(dtypes[index] for index in group):
            piles.append([index for index in group if dtypes[index] == dtype])
    open_piles: dict[str, list[int]] = {}
    for index in reversed(range(len(shapes))):
        if index in apart or index in grouped:
            continue
        dtype = dtypes[index]
        pile = open_piles.get(dtype)
        most = BUCKET_BYTES // getattr(torch, dtype).itemsize
        if pile is None or sum(sizes[one] for one in pile) + sizes[index] > most:
            pile = open_piles[dtype] = []
            piles.append(pile)
        pile.append(index)
    piles.sort(key=max, reverse=True)
    return [_bucket(pile, sizes, dtypes, halved=details.halved) for pile in piles]


def _bucket(
    pile: list[int], sizes: Sequence[int], dtypes: Sequence[str], *, halved: bool
) -> Bucket:
    dtype: torch.dtype = getattr(torch, dtypes[pile[0]])
    wire = torch.float16 if halved and dtype is torch.float32 else dtype
    return Bucket(tuple(pile), tuple(sizes[index] for index in pile), dtype, wire)
