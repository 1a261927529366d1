"""A communicator for the gradients of one DistributedOptimizer, which all ranks have opened.

Every step is the same sums in the same order, so they need no names. Ranks may have parameters in
different orders: the first rank's is that of the channel. A rank that has joined knows from the
opening what these sums are, and stands in with zeros.
"""

from typing import final

from phalanx.comm.base import Communicator
from phalanx.horovod.engine.buckets import Details, plan_buckets
from phalanx.horovod.engine.negotiation import Match
from phalanx.horovod.engine.sums import make_sums


@final
class Channel:
    """The sums of a step, once for every bucket. It owns its communicator."""

    def __init__(self, control: Communicator, match: Match) -> None:
        """Collective. What all ranks of a communicator, which stays in use, have described."""
        first = match.any
        details: Details = first.details
        self.name = match.name.partition(".")[2]
        self.names, self.shapes = details.names, first.shapes
        numbers = {name: number for number, name in enumerate(self.names)}
        told: list[Details] = [one.details for one in match.by_rank.values()]

        def numbered(one: Details, indices: tuple[int, ...]) -> frozenset[int]:
            return frozenset(numbers[one.names[index]] for index in indices)

        #: Parameters that some rank cannot put in a bucket.
        self.apart = frozenset[int]().union(*(numbered(one, one.apart) for one in told))
        #: Parameters whose gradients came sparse on some rank.
        self.sparse = frozenset[int]().union(*(numbered(one, one.sparse) for one in told))
        #: Parameters whose memory is in that order on all ranks.
        self.channels_last = numbered(details, details.channels_last).intersection(
            *(numbered(one, one.channels_last) for one in told)
        )
        self.buckets = plan_buckets(first.shapes, first.dtypes, details=details, apart=self.apart)
        self._control = control
        self._comm = control.split(0, control.rank)
        self.sums = make_sums(self._comm, self.buckets, divisor=details.divisor)
        #: The step up to which this rank stands in.
        self._until = 0

    def stand_in(self, *, until: int) -> None:
        """Take part in the steps up to this one with zeros, as far as `move_on` is called."""
        self._until = max(self._until, until)

    def move_on(self) -> None:
        """Go on standing in, without waiting for anybody."""
        while self.sums.test() and self.sums.begun < self._until * len(self.buckets):
            self.sums.begin_with_zeros()

    def settle(self) -> None:
        """End what is under way; the others have done their part of it, or will without us."""
        while not self.sums.test():
            pass

    def free(self) -> None:
        """Collective. After a failure some ranks may have begun what others have not."""
        most = max(self._control.allgather_objects(self.sums.begun))
        while self.sums.begun < most:
            self.sums.begin_with_zeros()
        self.settle()
        self._comm.free()
