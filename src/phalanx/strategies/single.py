"""`single`: one rank, no communication. The plain torch loop that all others are compared with."""

from dataclasses import dataclass

from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.errors import UsageError
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.gradient import accumulate_gradients


@dataclass(frozen=True)
class Single(Strategy):
    """Train on exactly one rank."""

    def bind(self, comm: Communicator, task: Task) -> Worker:
        if comm.size != 1:
            raise UsageError(f"strategy 'single' trains on exactly one rank, not on {comm.size}")
        return SingleWorker(task)


class SingleWorker(Worker):
    def __init__(self, task: Task) -> None:
        self._task = task

    def step(self, batch: Batch) -> Outcome:
        self._task.optimizer.zero_grad()
        outcome = accumulate_gradients(self._task, batch.whole(), batch_size=batch.size)
        self._task.optimizer.step()
        return outcome

    def sync(self) -> None:
        """Nothing to do: the only rank has the weights."""
