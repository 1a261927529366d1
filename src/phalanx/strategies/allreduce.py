"""`allreduce`: every rank holds the model; MPI_Allreduce adds up the gradients of a global batch.

Known elsewhere as the collective scheme, mirrored storage, Horovod or DDP.
"""

from dataclasses import dataclass

from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.flat import FlatParameters
from phalanx.strategies.gradient import accumulate_gradients
from phalanx.strategies.randomness import seed_part
from phalanx.strategies.replica import average_buffers, broadcast_model


@dataclass(frozen=True)
class Allreduce(Strategy):
    """One blocking exchange of the flat gradient a step."""

    def bind(self, comm: Communicator, task: Task) -> Worker:
        return AllreduceWorker(comm, task)


class AllreduceWorker(Worker):
    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm = comm
        self._task = task
        self._flat = FlatParameters(task.model)
        self._steps = 0
        broadcast_model(comm, task.model, self._flat)

    def step(self, batch: Batch) -> Outcome:
        self._flat.clear_gradients()
        seed_part(self._task.seed, self._steps, self._comm.rank)
        self._steps += 1
        mine = batch.part(self._comm.rank, of=self._comm.size)
        outcome = accumulate_gradients(self._task, mine, batch_size=batch.size)
        for block in self._flat.collect():
            self._comm.allreduce(block.gradients)
        self._task.optimizer.step()
        return outcome

    def sync(self) -> None:
        """Weights are the same everywhere already; running statistics are averaged."""
        average_buffers(self._comm, self._task.model)
