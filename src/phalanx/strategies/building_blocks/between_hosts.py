"""The sum of slices over all hosts, during the backward pass that computes them.

The gradient of a host is rows in memory that its ranks share. A bucket of it is summed when all
ranks of the host have come past it, which a barrier tells that nobody waits in: whoever owns a
piece of it adds up the rows there and exchanges the result with its peers, one a host. Nothing of
it holds up a rank that still computes.
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from phalanx.comm import algorithms
from phalanx.comm.algorithm_names import AUTO
from phalanx.comm.base import Call, Communicator, Request
from phalanx.comm.hosts import Hosts
from phalanx.comm.progress import takes_threads
from phalanx.exchange.compressions import compressed_sum, matrices_in
from phalanx.exchange.flat import FlatBlock
from phalanx.exchange.lossy import COMPRESSIBLE, LossySum
from phalanx.exchange.overlap import Overlap, cut_in_buckets
from phalanx.exchange.pairs import started_sum
from phalanx.exchange.rows import RowSum
from phalanx.exchange.stream import Stream
from phalanx.exchange.sums import Sum
from phalanx.strategies.building_blocks.error_feedback import ErrorFeedback
from phalanx.strategies.building_blocks.exchanges import BucketExchange, Way
from phalanx.strategies.building_blocks.overlap_trial import OverlapTrial


@final
class BetweenHosts(BucketExchange):
    """What this rank has to do with the sums of all buckets."""

    def __init__(
        self, hosts: Hosts, blocks: Sequence[FlatBlock], slices: Sequence[slice], way: Way
    ) -> None:
        """Collective. `slices`: what of each block this rank owns."""
        self._host = hosts.host.split(0, hosts.host.rank)  # apart from what others do meanwhile
        tuned = algorithms.choose(hosts.peers, AUTO, started=True)
        self._peers = hosts.peers.split(0, hosts.peers.rank) if tuned is hosts.peers else tuned
        self._marks = [block.marks()[0].clone() for block in blocks]
        buckets, sums, self._lossy = [], [], list[LossySum]()
        for block, slice_ in reversed(list(zip(blocks, slices, strict=True))):
            for bucket in cut_in_buckets(block, way.most_bytes):
                start, stop = bucket.where.start, bucket.where.stop
                mine = slice(max(start, slice_.start), min(stop, slice_.stop))
                buckets.append(bucket)
                sums.append(self._piece_sum(block, mine, way))
        marks = [
            _MarkSum(self._host, self._peers, block.marks(), into=into)
            for block, into in zip(blocks, self._marks, strict=True)
        ]
        self._stream = Stream([*sums, *marks], threaded=takes_threads(hosts.everyone))
        self._overlap = Overlap(
            self._stream,
            buckets if way.overlap else [],
            row=hosts.host.rank,
            careful=way.careful,
        )
        self._trial = OverlapTrial(hosts.everyone, self._overlap) if way.on_trial else None
        self._feedback = ErrorFeedback((hosts.rank, hosts.everyone.size), blocks, self._lossy)

    def _piece_sum(self, block: FlatBlock, mine: slice, way: Way) -> Sum:
        if mine.start >= mine.stop or self._peers.size == 1:
            return _HostSum(self._host, block.gradients[:0], None, None)
        gradients = block.gradients[mine]
        inner: Sum
        if way.compress is None or gradients.dtype not in COMPRESSIBLE:
            inner = started_sum(self._peers, gradients)
        else:
            matrices = list(matrices_in(block, mine))
            inner = compressed_sum(
                way.compress, self._peers, gradients, matrices=matrices, rank=way.rank
            )
            self._lossy.append(inner)
        return _HostSum(self._host, gradients, RowSum(block.rows, mine), inner)

    def finish(self) -> list[Tensor]:
        """Collective. Afterwards this rank's slices of the first row are the sums over all hosts;
        which parameters any rank has a gradient for."""
        self._finish_sums()
        return self._marks

    def close(self) -> None:
        self._overlap.close()
        self._peers.free()
        self._host.free()


@final
class _HostSum(Sum):
    """A sum over the rows of a host, and then over the hosts."""

    turns_at_once = 1

    def __init__(
        self, host: Communicator, tensor: Tensor, rows: RowSum | None, between: Sum | None
    ) -> None:
        self.tensor = tensor
        self._rows, self._between = rows, between
        self._meeting = _Meeting(host)
        self.turns = 1 + (0 if between is None else between.turns)
        self._met = False

    def start(self) -> None:
        self._met = False
        self._meeting.begin()

    def test(self) -> bool:
        if self._met:
            return self._between is None or self._between.test()
        return self._meeting.test()

    def turn(self) -> None:
        if self._between is None:
            return
        if self._met:
            self._between.turn()
            return
        assert self._rows is not None
        self._rows.add_up()
        self._between.start()
        self._met = True

    def finish(self) -> None:
        if self._between is not None:
            self._between.finish()


@final
class _MarkSum(Sum):
    """Which parameters have a gradient on some rank of some host."""

    turns = 1

    def __init__(
        self, host: Communicator, peers: Communicator, marks: Tensor, *, into: Tensor
    ) -> None:
        self.tensor = into
        self._marks = marks
        self._meeting = _Meeting(host)
        self._between = started_sum(peers, into)
        self._met = False

    def start(self) -> None:
        self._met = False
        self._meeting.begin()

    def test(self) -> bool:
        return self._between.test() if self._met else self._meeting.test()

    def turn(self) -> None:
        torch.amax(self._marks, 0, out=self.tensor)
        self._between.start()
        self._met = True

    def finish(self) -> None:
        self._between.finish()


@final
class _Meeting:
    """A barrier of a host's ranks that nobody waits in; there is none of a single rank."""

    def __init__(self, host: Communicator) -> None:
        self._begin = host.prepare_start(Call("barrier")) if host.size > 1 else None
        self._request: Request | None = None

    def begin(self) -> None:
        """Collective. This rank has come."""
        if self._begin is not None:
            self._request = self._begin()

    def test(self) -> bool:
        """Whether all have."""
        if self._request is not None and self._request.test():
            self._request = None
        return self._request is None
