"""A communicator for the gradients of one DistributedOptimizer, which all ranks have opened.

Every step is the same sums in the same order, so they need no names. A rank that has joined knows
from the opening what these sums are, and stands in with zeros.
"""

from typing import final

import torch

from phalanx.comm.base import Communicator, Request
from phalanx.horovod.buckets import Bucket, Details, plan_buckets
from phalanx.horovod.negotiation import Match


@final
class Channel:
    """The sums of a step, once for every bucket."""

    def __init__(
        self, name: str, comm: Communicator, *, buckets: list[Bucket], apart: frozenset[int]
    ) -> None:
        self.name = name
        self.comm = comm
        self.buckets = buckets
        #: Parameters that some rank cannot put in a bucket.
        self.apart = apart
        #: Steps that this rank has begun.
        self.steps = 0
        self._standing_in: list[Request] = []

    @staticmethod
    def open(comm: Communicator, match: Match) -> "Channel":
        """Collective. The channel that all ranks have described alike."""
        first = match.any
        details: Details = first.details
        apart = frozenset(i for one in match.by_rank.values() for i in one.details.apart)
        buckets = plan_buckets(first.shapes, first.dtypes, details=details, apart=apart)
        return Channel(
            match.name.partition(".")[2], comm.split(0, comm.rank), buckets=buckets, apart=apart
        )

    def stand_in(self, *, until: int) -> None:
        """Begin the steps up to this one with zeros, without waiting for anybody."""
        self._standing_in = [one for one in self._standing_in if not one.test()]
        while self.steps < until:
            self.steps += 1
            for bucket in self.buckets:
                zeros = torch.zeros(sum(bucket.sizes), dtype=bucket.wire)
                self._standing_in.append(self.comm.iallreduce(zeros))

    def free(self) -> None:
        """Collective."""
        for request in self._standing_in:
            request.wait()
        self.comm.free()
