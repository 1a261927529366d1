"""`allreduce`: every rank holds the model; MPI_Allreduce adds up the gradients of a global batch.

Known elsewhere as the collective scheme, mirrored storage, Horovod or DDP. With fixed shards the
order of the sum matters, which MPI leaves open: the shards' gradients are then gathered everywhere
and added up in their order.
"""

from dataclasses import dataclass

from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, cut
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.flat import FlatParameters
from phalanx.strategies.gradient import PartGradients
from phalanx.strategies.replica import Replica, average_buffers, broadcast_model
from phalanx.strategies.statistics import Statistics
from phalanx.strategies.summing import RowSum


@dataclass(frozen=True)
class Allreduce(Strategy):
    """One blocking exchange of the flat gradient a step."""

    def bind(self, comm: Communicator, task: Task) -> Worker:
        if task.shards is not None:
            return ShardedAllreduceWorker(comm, task, task.shards)
        return AllreduceWorker(comm, task)


class AllreduceWorker(Worker):
    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm = comm
        self._task = task
        broadcast_model(comm, task.model)
        self._flat = FlatParameters(task.model)
        self._replica = Replica(task, self._flat)
        self._gradients = PartGradients(
            task, self._flat, parts=range(comm.rank, comm.rank + 1), of=comm.size, rows=[0]
        )

    def step(self, batch: Batch) -> Outcome:
        outcome = self._gradients.compute(batch)
        for block in self._flat.blocks:
            self._comm.allreduce(block.rows[0])
        self._replica.update()
        return outcome

    def sync(self) -> None:
        """Weights are the same everywhere already; running statistics are averaged."""
        average_buffers(self._comm, self._task.model)


class ShardedAllreduceWorker(Worker):
    def __init__(self, comm: Communicator, task: Task, shards: int) -> None:
        self._comm = comm
        parts = cut(shards, comm.size)
        self._mine = parts[comm.rank]
        self._counts = [part.stop - part.start for part in parts]
        broadcast_model(comm, task.model)
        self._flat = FlatParameters(task.model, rows=shards)
        self._sums = [RowSum(block, slice(0, block.layout.length)) for block in self._flat.blocks]
        self._replica = Replica(task, self._flat)
        self._statistics = Statistics(task.model, comm, shards=shards)
        mine = range(self._mine.start, self._mine.stop)
        self._gradients = PartGradients(
            task, self._flat, parts=mine, of=shards, rows=mine, statistics=self._statistics
        )

    def step(self, batch: Batch) -> Outcome:
        outcome = self._gradients.compute(batch)
        for block, total in zip(self._flat.blocks, self._sums, strict=True):
            self._comm.allgather(block.rows[self._mine], block.rows, counts=self._counts)
            total.add_up()
            block.marks()[0] = block.marks().amax(0)
        self._statistics.finish(batch.size)
        self._replica.update()
        return outcome

    def sync(self) -> None:
        """Weights and statistics are the same everywhere already."""
