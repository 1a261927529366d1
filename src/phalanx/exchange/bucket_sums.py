"""Buckets and their sums, as suits where the ranks are and what they sum.

On one host the ranks share the memory of one bucket a dtype: nothing is gained there from beginning
early, and every bucket costs two barriers. Between hosts, and for the few bytes that MPI is faster
with, each of several buckets is a non-blocking MPI_Allreduce that goes on while the backward pass
does.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import torch

from phalanx.comm.base import Communicator
from phalanx.exchange.buckets import Bucket, plan_buckets
from phalanx.exchange.host_sums import host_sums
from phalanx.exchange.rows import SMALL
from phalanx.exchange.sums import StartedSum, Sum

#: Bytes of a bucket: large enough for the network, small enough to begin early.
BUCKET_BYTES = 4 << 20
#: What ranks of one host add up as MPI would, bit for bit.
_HOST_DTYPES = (torch.float32, torch.float64)


def bucket_sums(
    comm: Communicator,
    sizes: Sequence[int],
    dtypes: Sequence[torch.dtype],
    *,
    divisor: float,
    wires: Mapping[torch.dtype, torch.dtype],
    groups: Sequence[Sequence[int]] = (),
    separate: AbstractSet[int] = frozenset(),
) -> tuple[list[Bucket], Sequence[Sum]]:
    """Collective. Buckets, and for each the sum in memory that is made for it, divided by a number.

    `wires`: what dtypes travel as, where that is another one; the rest as for `plan_buckets`.
    """
    everything = sum(size * dtype.itemsize for size, dtype in zip(sizes, dtypes, strict=True))
    whole = plan_buckets(sizes, dtypes, most_bytes=everything, separate=separate)
    if sum(one.length * one.dtype.itemsize for one in whole) > SMALL and all(
        one.dtype in _HOST_DTYPES and one.dtype not in wires for one in whole
    ):
        shared = host_sums(comm, whole, divisor=divisor)
        if shared is not None:
            return whole, shared
    buckets = plan_buckets(sizes, dtypes, most_bytes=BUCKET_BYTES, groups=groups, separate=separate)
    flats = [torch.zeros(bucket.length, dtype=bucket.dtype) for bucket in buckets]
    return buckets, [
        StartedSum(comm, flat, wire=wires.get(flat.dtype), divisor=divisor) for flat in flats
    ]
