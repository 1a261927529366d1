"""Rank 0 of `async`: the main network, which applies gradients as they come."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import final

from torch.optim import Optimizer

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.exchange.flat import FlatParameters
from phalanx.state import State
from phalanx.strategies.asynchronous.assignments import NONE_LEFT, Assignments, StalenessRecord
from phalanx.strategies.asynchronous.connection import Connection
from phalanx.strategies.asynchronous.meeting import close, share_weights
from phalanx.strategies.base import Outcome, Task, TextTable, Worker
from phalanx.strategies.building_blocks.parameter_server import (
    NOTHING,
    workers_of,
)
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    load_whole,
    whole_state,
)


@final
class AsynchronousServer(Worker):
    """Rank 0: the main network, the optimizer, and a book of what was handed out."""

    trains = False

    def __init__(self, comm: Communicator, task: Task, *, lead: int, aware: bool) -> None:
        """`lead`: how many batches workers may be ahead; `aware`: of how stale an update is."""
        self._comm = comm
        self._task = task
        self._aware = aware
        # Updates are made from rank 0's row; the others are for messages.
        self._flat = FlatParameters(task.model, rows=comm.size)
        self._whole_model = WholeModel(task, self._flat)
        self._connections = [Connection(comm, self._flat, rank=rank) for rank in workers_of(comm)]
        self._silent: list[Connection] = []  # those with nothing to say until all ranks have met
        self._listening = False
        self._asking: list[Connection] = []  # those without an answer, in the order that they came
        self._assignments = Assignments(lead=lead)
        self._told: Counter[int] = Counter()  # by batch: who knows that none is left
        self._version = 0
        self._record = StalenessRecord()

    def step(self, batch: Batch) -> Outcome:
        """Serve everybody, whatever batch they are at, until all know that none is left of this."""
        self._flat.attach(0)
        if not self._listening:
            self._assignments.begin(batch.step)
        self._listen()
        while self._told[batch.step] < len(self._connections):
            self._serve()
        del self._told[batch.step]
        return NOTHING

    def sync(self) -> None:
        """Serve until everybody is here, and everything applied; then share the weights."""
        self._listen()
        while len(self._silent) < len(self._connections):
            self._serve()
        assert self._assignments.settled, "a part that was handed out has not come back"
        self._listening = False
        share_weights(self._comm, self._task, self._flat)

    def state(self) -> State:
        self.sync()
        return whole_state(self._task)

    def load(self, state: State) -> None:
        load_whole(self._task, state)

    def close(self) -> None:
        close(self._comm, self._flat)

    def report(self) -> Sequence[TextTable]:
        return self._comm.broadcast_object(self._record.tables(workers_of(self._comm)))

    def _listen(self) -> None:
        """Listen to everybody, if not done since all ranks have met.

        Who has gone ahead to the next meeting stays silent, though rank 0 is still in a step.
        """
        if not self._listening:
            self._listening = True
            self._silent = []
            for connection in self._connections:
                connection.listen()

    def _serve(self) -> None:
        """Take in a message, from whoever has one first, and answer whoever can be answered."""
        awaited = [
            (connection, connection.awaited)
            for connection in self._connections
            if connection.awaited is not None
        ]
        with phase("wait"):
            found = self._comm.wait_any([request for _, request in awaited])
            connection = awaited[found][0]
            complete = connection.take_in()
        # Behind the others: whoever is always ready must not keep them from being heard.
        self._connections.remove(connection)
        self._connections.append(connection)
        if not complete:
            return
        if connection.request.has_gradient:
            self._apply(connection)
        (self._silent if connection.request.syncs else self._asking).append(connection)
        self._answer()

    def _apply(self, connection: Connection) -> None:
        staleness = self._version - connection.request.version
        with phase("update"):
            for block in self._flat.blocks:
                pairs = zip(block.messages(0), block.messages(connection.rank), strict=True)
                for mine, theirs in pairs:
                    mine.copy_(theirs)
            factor = 1 / (1 + staleness) if self._aware else 1.0
            with _learning_rates_times(factor, self._task.optimizer):
                self._whole_model.update([block.marks()[0] for block in self._flat.blocks])
        self._version += 1
        self._record.add(rank=connection.rank, staleness=staleness)
        self._assignments.apply(connection.request.batch)

    def _answer(self) -> None:
        waiting = []
        for connection in self._asking:
            part = self._assignments.hand_out(
                connection.request.batch, parts=connection.request.parts
            )
            if part is None:
                waiting.append(connection)
                continue
            if part == NONE_LEFT:
                self._told[connection.request.batch] += 1
            with phase("exchange"):
                connection.answer(part, version=self._version)
        self._asking = waiting


@contextmanager
def _learning_rates_times(factor: float, optimizer: Optimizer) -> Iterator[None]:
    """Inside, every learning rate is so many times what it was."""
    if factor == 1.0:
        yield
        return
    before = [group["lr"] for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, before, strict=True):
        group["lr"] = rate * factor
    try:
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, before, strict=True):
            group["lr"] = rate
