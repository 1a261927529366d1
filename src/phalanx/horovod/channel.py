"""A communicator for the gradients of one DistributedOptimizer, which all ranks have opened.

Every step is the same sums in the same order, so they need no names. A rank that has joined knows
from the opening what these sums are, and stands in with zeros.
"""

from typing import final

from phalanx.comm.base import Communicator
from phalanx.horovod.buckets import Bucket, Details, plan_buckets
from phalanx.horovod.negotiation import Match
from phalanx.horovod.sums import make_sums


@final
class Channel:
    """The sums of a step, once for every bucket. It owns its communicator."""

    def __init__(
        self,
        name: str,
        comm: Communicator,
        *,
        buckets: list[Bucket],
        apart: frozenset[int],
        divisor: float,
    ) -> None:
        """Collective."""
        self.name = name
        self.buckets = buckets
        #: Parameters that some rank cannot put in a bucket.
        self.apart = apart
        self.sums = make_sums(comm, buckets, divisor=divisor)
        #: Steps that this rank has begun, and those that it stands in for.
        self.steps = 0
        self._until = 0
        self._comm = comm

    @staticmethod
    def open(comm: Communicator, match: Match) -> "Channel":
        """Collective. The channel that all ranks have described alike."""
        first = match.any
        details: Details = first.details
        apart = frozenset(i for one in match.by_rank.values() for i in one.details.apart)
        return Channel(
            match.name.partition(".")[2],
            comm.split(0, comm.rank),
            buckets=plan_buckets(first.shapes, first.dtypes, details=details, apart=apart),
            apart=apart,
            divisor=details.divisor,
        )

    def stand_in(self, *, until: int) -> None:
        """Take part in the steps up to this one with zeros, as far as `move_on` is called."""
        self._until = max(self._until, until)

    def move_on(self) -> None:
        """Go on standing in, without waiting for anybody."""
        while self.sums.test() and self.steps < self._until:
            self.steps += 1
            self.sums.begin_with_zeros()

    def settle(self) -> None:
        """End a step that this rank stood in for; the others have done their part of it."""
        while not self.sums.test():
            pass

    def free(self) -> None:
        """Collective."""
        self.settle()
        self._comm.free()
