"""A communicator for the gradients of one DistributedOptimizer, which all ranks have opened.

Every step is the same sums in the same order, so they need no names. Ranks may have parameters in
different orders: the first rank's is that of the channel. A rank that has joined knows from the
opening what these sums are, and stands in with zeros.
"""

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import final

import torch

from phalanx.comm.algorithm_names import AUTO
from phalanx.comm.algorithms import choose
from phalanx.comm.base import Communicator
from phalanx.exchange.bucket_sums import bucket_sums
from phalanx.exchange.sums import Sums
from phalanx.horovod.engine.details import Details
from phalanx.horovod.engine.negotiation import Match


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
        self.separate = frozenset[int]().union(*(numbered(one, one.separate) for one in told))
        #: Parameters whose gradients came sparse on some rank.
        self.sparse = frozenset[int]().union(*(numbered(one, one.sparse) for one in told))
        #: Parameters whose memory is in that order on all ranks.
        self.channels_last = numbered(details, details.channels_last).intersection(
            *(numbered(one, one.channels_last) for one in told)
        )
        self._control = control
        tuned = choose(control, AUTO, started=True)  # MPI's own choice for few ranks is slow
        self._comm = control.split(0, control.rank) if tuned is control else tuned
        self.buckets, sums = bucket_sums(
            self._comm,
            [torch.Size(shape).numel() for shape in first.shapes],
            [getattr(torch, dtype) for dtype in first.dtypes],
            divisor=details.divisor,
            wires={torch.float32: torch.float16} if details.halved else {},
            groups=details.groups,
            separate=self.separate,
        )
        #: One for each bucket.
        self.sums = Sums(sums)
        #: The step up to which this rank stands in.
        self._until = 0
        self._listener: weakref.WeakMethod[Callable[[], None]] | None = None

    def when_freed(self, listener: Callable[[], None]) -> None:
        """Have a method called when the channel is freed, unless its object is gone by then."""
        self._listener = weakref.WeakMethod(listener)

    def stand_in(self, *, until: int) -> None:
        """Take part in the steps up to this one with zeros, as far as `move_on` is called."""
        self._until = max(self._until, until)

    def move_on(self) -> None:
        """Go on standing in, without waiting for anybody."""
        while self.sums.test() and self.sums.started_ever < self._until * len(self.buckets):
            self.sums.start_next_with_zeros()

    def settle(self) -> None:
        """End what is under way; the others have done their part of it, or will without us."""
        while not self.sums.test():
            pass

    def free(self) -> None:
        """Collective. After a failure some ranks may have begun what others have not."""
        most = max(self._control.allgather_objects(self.sums.started_ever))
        while self.sums.started_ever < most:
            self.settle()  # a step must be over before the next begins
            self.sums.start_next_with_zeros()
        self.settle()
        self._comm.free()
        self._tell_listener()

    def abandon(self) -> None:
        """Ranks are lost, and the communicator revoked: let go, with nobody's help."""
        with suppress(Exception):  # has MPI end what is under way, and leave its memory alone
            self.sums.test()
        self._tell_listener()

    def _tell_listener(self) -> None:
        listener = self._listener and self._listener()
        if listener is not None:
            listener()
