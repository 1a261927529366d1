"""The sum of flat gradients over all ranks, each of which has a whole model."""

from collections.abc import Callable, Sequence
from typing import final

from torch import Tensor

from phalanx.comm import algorithms
from phalanx.comm.algorithm_names import AUTO
from phalanx.comm.base import Communicator
from phalanx.comm.progress import takes_threads
from phalanx.exchange.compressions import compressed_sum, matrices_in
from phalanx.exchange.flat import FlatBlock
from phalanx.exchange.lossy import COMPRESSIBLE, LossySum
from phalanx.exchange.overlap import BlockBucket, Overlap, cut_in_buckets
from phalanx.exchange.pairs import started_sum
from phalanx.exchange.stream import Stream
from phalanx.exchange.sums import BlockingSum, StartedSum, Sum, Sums
from phalanx.strategies.building_blocks.error_feedback import ErrorFeedback
from phalanx.strategies.building_blocks.exchanges import BucketExchange, Way
from phalanx.strategies.building_blocks.overlap_trial import OverlapTrial


@final
class AcrossRanks(BucketExchange):
    """The first rows of some blocks become the sums over all ranks, marks and all."""

    def __init__(
        self, comm: Communicator, blocks: Sequence[FlatBlock], way: Way, *, algorithm: str
    ) -> None:
        """Collective. `algorithm`: how MPI adds up."""
        self._blocks = blocks
        chosen = algorithms.choose(comm, algorithm, started=way.overlap)
        if way.overlap and chosen is comm:
            chosen = comm.split(0, comm.rank)  # apart from what others do meanwhile
        self._comm, self._own_comm = chosen, chosen is not comm
        buckets: list[BlockBucket] = []
        if way.overlap:
            for block in reversed(blocks):
                buckets += cut_in_buckets(block, way.most_bytes)
        sums = self._sums(buckets, way, algorithm)
        on_cpu = all(block.values.is_cpu for block in blocks)
        threaded = way.overlap and on_cpu and comm.size > 1 and takes_threads(comm)
        # A GPU does what it was told in order: nobody has to see to it, nor wait for it here.
        stream = Stream(sums, threaded=threaded) if on_cpu else Sums(sums)
        self._overlap = Overlap(stream, buckets, careful=way.careful)
        self._trial = OverlapTrial(comm, self._overlap) if way.on_trial and on_cpu else None
        lossy = [one for one in sums if isinstance(one, LossySum)]
        self._feedback = ErrorFeedback((comm.rank, comm.size), blocks, lossy)

    def _sums(self, buckets: Sequence[BlockBucket], way: Way, algorithm: str) -> list[Sum]:
        """What is summed in a step, in this order."""
        comm, blocks = self._comm, self._blocks
        if not buckets and way.compress is None:
            return [BlockingSum(comm, one) for block in blocks for one in block.messages(0)]
        on_cpu = all(block.values.is_cpu for block in blocks)
        started: Callable[[Communicator, Tensor], Sum] = BlockingSum
        if buckets:
            started = started_sum if algorithm == AUTO and on_cpu else StartedSum

        def gradient_sum(block: FlatBlock, where: slice) -> Sum:
            gradients = block.gradients[where]
            # Alone, a rank sends nothing, and so needs to round nothing.
            if way.compress is None or comm.size == 1 or gradients.dtype not in COMPRESSIBLE:
                return started(comm, gradients)
            matrices = list(matrices_in(block, where))
            return compressed_sum(way.compress, comm, gradients, matrices=matrices, rank=way.rank)

        pieces = [(bucket.block, bucket.where) for bucket in buckets]
        pieces = pieces or [(block, slice(0, block.layout.length)) for block in blocks]
        # The marks are known when the backward pass is over, and must arrive as they are.
        marks = [started(comm, block.marks()[0]) for block in blocks]
        return [*(gradient_sum(*piece) for piece in pieces), *marks]

    def finish(self) -> list[Tensor]:
        self._finish_sums()
        return [block.marks()[0] for block in self._blocks]

    def close(self) -> None:
        self._overlap.close()
        if self._own_comm:
            self._comm.free()
