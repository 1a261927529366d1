"""`allreduce`: every rank holds the model; MPI_Allreduce adds up the gradients of a global batch.

Known elsewhere as the collective scheme, mirrored storage, Horovod or DDP. With fixed shards the
order of the sum matters, which MPI leaves open: the shards' gradients are then gathered everywhere
and added up in their order.

Options say how: by which of MPI's algorithms, during the backward pass, or in 16 bits. Overlap and
compression go together; an algorithm goes with overlap where MPI has it for non-blocking sums too,
but not with compression, which adds up by itself.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from phalanx.clock import phase
from phalanx.comm import algorithms
from phalanx.comm.algorithm_names import AUTO
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, cut
from phalanx.errors import UsageError
from phalanx.exchange.compression import COMPRESSIBLE, CompressedSum, Compression
from phalanx.exchange.flat import FlatParameters
from phalanx.exchange.overlap import BlockBucket, Overlap, cut_in_buckets
from phalanx.exchange.rows import RowSum
from phalanx.exchange.sums import BlockingSum, StartedSum, Sum, Sums
from phalanx.state import State
from phalanx.state.model import parameter_names
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.building_blocks.error_feedback import ErrorFeedback
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.sharded_buffers import ShardedBuffers
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    average_buffers,
    broadcast_model,
    load_whole,
    whole_state,
)
from phalanx.strategies.rules import check_bound, check_fields


@dataclass(frozen=True)
class Allreduce(Strategy):
    """One exchange of the flat gradient a step."""

    #: How MPI adds up: one of `phalanx.comm.algorithm_names.ALGORITHMS`.
    algorithm: str = AUTO
    #: Exchange gradients during the backward pass, as they come.
    overlap: bool = False
    #: Exchange gradients in 16 bits.
    compress: Compression | None = None
    #: With overlap: about how much of the gradient is exchanged at a time.
    bucket_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        check_fields("allreduce", self)
        if self.bucket_bytes < 1:
            raise UsageError(f"bucket_bytes must be at least 1, not {self.bucket_bytes}")

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("allreduce", self, task, ranks=comm.size)
        if task.shards is None:
            return AllreduceWorker(comm, task, self)
        return ShardedAllreduceWorker(comm, task, task.shards)


class AllreduceWorker(Worker):
    def __init__(self, comm: Communicator, task: Task, options: Allreduce) -> None:
        self._comm = algorithms.choose(comm, options.algorithm, started=options.overlap)
        self._own_comm = self._comm is not comm
        comm = self._comm
        self._task = task
        broadcast_model(comm, task.model)
        self._flat = FlatParameters(task.model)
        self._whole_model = WholeModel(task, self._flat)
        buckets: list[BlockBucket] = []
        if options.overlap:
            for block in reversed(self._flat.blocks):
                buckets += cut_in_buckets(block, options.bucket_bytes)
        sums = _sums(comm, self._flat, buckets=buckets, options=options)
        self._overlap = Overlap(Sums(sums), buckets)
        compressed = [one for one in sums if isinstance(one, CompressedSum)]
        self._error_feedback = ErrorFeedback(comm, self._flat.blocks, compressed)
        self._marks = [block.marks()[0].clone() for block in self._flat.blocks]
        self._gradients = PartGradients(
            task,
            self._flat,
            parts=range(comm.rank, comm.rank + 1),
            of=comm.size,
            rows=[0],
            before_last_pass=self._overlap.watch,
        )

    def step(self, batch: Batch) -> Outcome:
        outcome = self._gradients.compute(batch)
        for block, marks in zip(self._flat.blocks, self._marks, strict=True):
            marks.copy_(block.marks()[0])
        with phase("exchange"):
            self._overlap.finish()
        self._whole_model.update([block.marks()[0] for block in self._flat.blocks])
        # The exchange has made sums of this rank's marks, which are written only when they change.
        for block, marks in zip(self._flat.blocks, self._marks, strict=True):
            block.marks()[0].copy_(marks)
        return outcome

    def sync(self) -> None:
        """Weights are the same everywhere already; running statistics are averaged."""
        average_buffers(self._comm, self._task.model)

    def state(self) -> State:
        self.sync()
        return whole_state(self._task).add(self._error_feedback.state(self._names))

    def load(self, state: State) -> None:
        load_whole(self._task, state)
        self._error_feedback.load(self._names, state)

    @property
    def _names(self) -> dict[nn.Parameter, str]:
        return parameter_names(self._task.model, self._task.optimizer)

    def close(self) -> None:
        self._overlap.close()
        self._flat.release()
        if self._own_comm:
            self._comm.free()


def _sums(
    comm: Communicator, flat: FlatParameters, *, buckets: list[BlockBucket], options: Allreduce
) -> list[Sum]:
    """What is summed in a step, in this order."""
    if not options.overlap and options.compress is None:
        return [BlockingSum(comm, block.rows[0]) for block in flat.blocks]
    started = StartedSum if options.overlap else BlockingSum

    def gradient_sum(gradients: Tensor) -> Sum:
        # Alone, a rank sends nothing, and so needs to round nothing.
        if options.compress is None or comm.size == 1 or gradients.dtype not in COMPRESSIBLE:
            return started(comm, gradients)
        return CompressedSum(comm, gradients, options.compress)

    pieces = [bucket.gradients for bucket in buckets] or [block.gradients for block in flat.blocks]
    # The marks are known when the backward pass is over, and must arrive as they are.
    marks = [started(comm, block.marks()[0]) for block in flat.blocks]
    return [*map(gradient_sum, pieces), *marks]


class ShardedAllreduceWorker(Worker):
    def __init__(self, comm: Communicator, task: Task, shards: int) -> None:
        self._comm, self._task = comm, task
        parts = cut(shards, comm.size)
        self._mine = parts[comm.rank]
        self._counts = [part.stop - part.start for part in parts]
        broadcast_model(comm, task.model)
        self._flat = FlatParameters(task.model, rows=shards)
        self._sums = [
            RowSum(block.rows, slice(0, block.layout.length)) for block in self._flat.blocks
        ]
        self._whole_model = WholeModel(task, self._flat)
        self._sharded_buffers = ShardedBuffers(task.model, comm, shards=shards)
        mine = range(self._mine.start, self._mine.stop)
        self._gradients = PartGradients(
            task, self._flat, parts=mine, of=shards, rows=mine, statistics=self._sharded_buffers
        )

    def step(self, batch: Batch) -> Outcome:
        outcome = self._gradients.compute(batch)
        with phase("exchange"):
            for block, total in zip(self._flat.blocks, self._sums, strict=True):
                self._comm.allgather(block.rows[self._mine], block.rows, counts=self._counts)
                total.add_up()
            self._sharded_buffers.finish(batch.size)
        self._whole_model.update([block.marks().amax(0) for block in self._flat.blocks])
        return outcome

    def sync(self) -> None:
        """Weights and statistics are the same everywhere already."""

    def state(self) -> State:
        return whole_state(self._task)

    def load(self, state: State) -> None:
        load_whole(self._task, state)

    def close(self) -> None:
        self._flat.release()
