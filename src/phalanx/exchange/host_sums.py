"""Sums in memory that the ranks of one host share, a row for each.

When all rows are full, every rank adds up a slice of them and writes the sum to all: nothing is
copied to anybody.
"""

from collections.abc import Sequence
from typing import final

from torch import Tensor

from phalanx.comm.base import Call, Communicator, Request
from phalanx.comm.hosts import on_one_host
from phalanx.comm.shared import SharedMemory, SharedMemoryError, room_for
from phalanx.exchange.buckets import Bucket
from phalanx.exchange.rows import EveryRowSum, slice_of_rank
from phalanx.exchange.sums import Sum


@final
class HostSum(Sum):
    """The sum of rows, one a rank: a barrier, an addition, a barrier."""

    def __init__(self, comm: Communicator, rows: Tensor, *, divisor: float = 1.0) -> None:
        """For the ranks of one host, which share `rows`; sums are divided by `divisor`."""
        self.tensor = rows[comm.rank]
        slice_ = slice_of_rank(rows.shape[1], comm.rank, of=comm.size)
        self._sum = EveryRowSum(rows, slice_, divisor=divisor)
        self._barrier = comm.prepare_start(Call("barrier"))
        #: Under way until all rows are full, and then until all slices are added up.
        self._request: Request

    def start(self) -> None:
        self._request = self._barrier()

    def test(self) -> bool:
        return self._request.test()

    def turn(self) -> None:
        self._request.wait()
        self._sum.add_up()
        self._request = self._barrier()

    def finish(self) -> None:
        self._request.wait()


def host_sums(
    comm: Communicator, buckets: Sequence[Bucket], *, divisor: float
) -> list[HostSum] | None:
    """Collective. Sums in memory that is made for these buckets; None if that is not possible:
    ranks are on several hosts, or the host has no such memory."""
    if comm.size == 1 or not on_one_host(comm):
        return None
    shapes = [((comm.size, bucket.length), bucket.dtype) for bucket in buckets]
    try:
        memory = SharedMemory(comm, sum(room_for(*shape) for shape in shapes))
    except SharedMemoryError:  # on all ranks
        return None
    return [HostSum(comm, memory.tensor(*shape), divisor=divisor) for shape in shapes]
