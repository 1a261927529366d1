"""Adding up the buckets of a step over the ranks, in memory that is there for it.

On one host the ranks share that memory, a row for each. When all rows are full every rank adds up a
slice of them and writes the sum to all: nothing is copied to anybody, and nothing is gained from
beginning early. Between hosts, and for the few bytes that MPI is faster with, each bucket is a
non-blocking MPI_Allreduce that goes on while the backward pass does.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from phalanx.comm.base import Call, Communicator, Request
from phalanx.comm.hosts import on_one_host
from phalanx.comm.shared import SharedMemory, SharedMemoryError, room_for
from phalanx.exchange.rows import SMALL, EveryRowSum, slice_of_rank
from phalanx.horovod.engine.buckets import Bucket


class Sums(ABC):
    """The buckets of one step after the other. One step is over before the next begins."""

    #: Where each bucket's gradients are put, and then are their sums divided by the divisor.
    flats: list[Tensor]
    #: The buckets that this rank has begun so far.
    begun: int = 0

    @property
    def steps(self) -> int:
        """The steps that this rank has begun so far."""
        return -(-self.begun // max(len(self.flats), 1))

    def begin(self) -> bool:
        """The next bucket is full. Whether MPI now has work for a while."""
        number = self.begun % len(self.flats)
        self.begun += 1
        return self._begin(number)

    def begin_with_zeros(self) -> None:
        """Begin the next bucket as a rank without gradients."""
        self.flats[self.begun % len(self.flats)].zero_()
        self.begin()

    @abstractmethod
    def test(self) -> bool:
        """Whether all sums that were begun are there. Also lets them make progress."""

    @abstractmethod
    def _begin(self, number: int) -> bool: ...


def make_sums(comm: Communicator, buckets: Sequence[Bucket], *, divisor: float) -> Sums:
    """Collective. What suits where the ranks are and what the buckets hold."""
    size = sum(sum(bucket.sizes) * bucket.dtype.itemsize for bucket in buckets)
    as_they_are = all(
        bucket.wire is bucket.dtype and bucket.dtype in (torch.float32, torch.float64)
        for bucket in buckets
    )
    if comm.size > 1 and size > SMALL and as_they_are and on_one_host(comm):
        try:
            return HostSums(comm, buckets, divisor=divisor)
        except SharedMemoryError:  # on all ranks; there is another way
            pass
    return MPISums(comm, buckets, divisor=divisor)


@final
class MPISums(Sums):
    """One MPI_Allreduce a bucket, in the bucket's memory or in what travels instead of it."""

    def __init__(self, comm: Communicator, buckets: Sequence[Bucket], *, divisor: float) -> None:
        self._comm, self._divisor = comm, divisor
        self.flats = [torch.zeros(sum(bucket.sizes), dtype=bucket.dtype) for bucket in buckets]
        self._wires = [
            flat if bucket.wire is bucket.dtype else torch.zeros_like(flat, dtype=bucket.wire)
            for flat, bucket in zip(self.flats, buckets, strict=True)
        ]
        self._under_way: list[tuple[int, Request]] = []

    def _begin(self, number: int) -> bool:
        wire = self._wires[number]
        if wire is not self.flats[number]:
            wire.copy_(self.flats[number])
        self._under_way.append((number, self._comm.iallreduce(wire)))
        return number + 1 < len(self.flats)  # behind the last one no computation is left

    def test(self) -> bool:
        while self._under_way:
            number, request = self._under_way[0]
            if not request.test():
                return False
            del self._under_way[0]
            flat = self.flats[number]
            if self._wires[number] is not flat:
                flat.copy_(self._wires[number])
            if self._divisor != 1.0:
                flat.div_(self._divisor)
        return True


@final
class HostSums(Sums):
    """All buckets at once, through memory that the ranks of one host share."""

    def __init__(self, comm: Communicator, buckets: Sequence[Bucket], *, divisor: float) -> None:
        """Collective over the ranks of one host."""
        shapes = [(comm.size, sum(bucket.sizes)) for bucket in buckets]
        dtypes = [bucket.dtype for bucket in buckets]
        memory = SharedMemory(comm, sum(map(room_for, shapes, dtypes)))
        rows = [memory.tensor(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        self.flats = [one[comm.rank] for one in rows]
        self._sums = [
            EveryRowSum(one, slice_of_rank(one.shape[1], comm.rank, of=comm.size), divisor=divisor)
            for one in rows
        ]
        self._meet = comm.prepare_start(Call("barrier"))
        #: Under way until all rows are full, and from then on until all slices are added up.
        self._filling: Request | None = None
        self._adding: Request | None = None

    def _begin(self, number: int) -> bool:
        if number + 1 == len(self.flats):
            self._filling = self._meet()
        return False

    def test(self) -> bool:
        if self._filling is not None:
            if not self._filling.test():
                return False
            self._filling = None
            for one in self._sums:
                one.add_up()
            self._adding = self._meet()
        if self._adding is not None and self._adding.test():
            self._adding = None
        return self._adding is None
