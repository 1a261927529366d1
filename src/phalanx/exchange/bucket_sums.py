"""The sums of buckets, by what suits where the ranks are and what the buckets hold.

On one host the ranks share the buckets' memory. Between hosts, and for the few bytes that MPI is
faster with, each bucket is a non-blocking MPI_Allreduce that goes on while the backward pass does.
"""

from collections.abc import Mapping, Sequence

import torch

from phalanx.comm.base import Communicator
from phalanx.exchange.buckets import Bucket
from phalanx.exchange.host_sums import host_sums
from phalanx.exchange.rows import SMALL
from phalanx.exchange.sums import StartedSum, Sum

#: What ranks of one host add up as MPI would, bit for bit.
_HOST_DTYPES = (torch.float32, torch.float64)
Wires = Mapping[torch.dtype, torch.dtype]


def bucket_sums(
    comm: Communicator, buckets: Sequence[Bucket], *, divisor: float, wires: Wires
) -> Sequence[Sum]:
    """Collective. Sums in memory that is made for these buckets, divided by a number.

    `wires`: what dtypes travel as, where that is another one.
    """
    size = sum(bucket.length * bucket.dtype.itemsize for bucket in buckets)
    as_they_are = all(one.dtype in _HOST_DTYPES and one.dtype not in wires for one in buckets)
    if size > SMALL and as_they_are:
        shared = host_sums(comm, buckets, divisor=divisor)
        if shared is not None:
            return shared
    flats = [torch.zeros(bucket.length, dtype=bucket.dtype) for bucket in buckets]
    return [StartedSum(comm, flat, wire=wires.get(flat.dtype), divisor=divisor) for flat in flats]
