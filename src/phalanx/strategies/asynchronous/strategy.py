"""`async`: a server that applies gradients as they come, first come, first applied.

Rank 0 keeps the main network and does not train. A global batch has a part for each worker, but no
worker has a part of its own: whoever is free asks for the next one, sends its gradient and gets,
with the next part, the weights as they are by then. A worker that finds no part left goes on to the
next batch. So a slow worker holds up nobody; it just computes fewer parts.

Every gradient is an update at the full learning rate, as is usual: the gradient of the loss over
the part's own samples, and so one update a part, not one a batch. Against a synchronous training,
the batch of an update is smaller, and updates are more by as many.

An update is stale by the updates that were applied since the weights that it was computed from.
`max_staleness` bounds that in batches: of batch t, parts are handed out only when all of batch
t - max_staleness - 1 and before are applied. With W workers no update is then stale by more than
(2 · max_staleness + 1) · W - 1 others. At 0 there is nothing asynchronous left, and the training is
that of `server`.

Why nothing hangs: let b be the first batch not applied in full. If all its parts are handed out,
some worker is computing one, and will send it. If not, nobody has been told that none is left, so
no worker is beyond b; requests for b or before are always answered at once, and every worker will
ask for b before it asks for anything later. So either a message is on its way to rank 0, or some
worker is computing. Rank 0 never waits for one worker alone, and its sends need nobody else.
A worker is told that none is left only after it has handed in its last part; so when rank 0 has
told all of them for the last batch, everything is applied.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import torch
from torch.optim import Optimizer

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatParameters
from phalanx.strategies.asynchronous.assignments import NONE_LEFT, Assignments, StalenessRecord
from phalanx.strategies.asynchronous.connection import REQUEST, Connection, WorkRequest
from phalanx.strategies.base import Outcome, Strategy, Task, TextTable, Worker
from phalanx.strategies.building_blocks.parameter_server import (
    NOTHING,
    SERVER,
    Message,
    receive_all,
    send_all,
    serve_in_step,
    weights_for,
    workers_of,
)
from phalanx.strategies.building_blocks.part_gradients import accumulate_gradients, joined
from phalanx.strategies.building_blocks.passes import make_pass
from phalanx.strategies.building_blocks.randomness import seed_part
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    average_buffers,
    broadcast_model,
)
from phalanx.strategies.rules import check_bound, check_fields


@dataclass(frozen=True)
class Asynchronous(Strategy):
    """A gradient to rank 0 and the weights back, for each part of a batch."""

    #: How many batches a worker may be ahead of the first one that is not applied in full.
    max_staleness: int = 4
    #: Divide the learning rate of an update by 1 + its staleness.
    staleness_aware: bool = False

    def __post_init__(self) -> None:
        check_fields("async", self)

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("async", self, task, ranks=comm.size)
        if self.max_staleness == 0:
            return serve_in_step(comm, task)
        groups = task.optimizer.param_groups
        if self.staleness_aware and not all("lr" in group for group in groups):
            raise UsageError(
                "staleness_aware divides the learning rate, and "
                f"{type(task.optimizer).__name__} has no 'lr': leave it out"
            )
        broadcast_model(comm, task.model)
        # Rank 0 listens to workers that may have nothing more to say: nobody else's messages, of
        # another training perhaps, must be taken for theirs.
        own = comm.split(0, comm.rank)
        if comm.rank == SERVER:
            return AsynchronousServer(own, task, self)
        return AsynchronousWorker(own, task)


@final
class AsynchronousServer(Worker):
    """Rank 0: the main network, the optimizer, and a book of what was handed out."""

    trains = False

    def __init__(self, comm: Communicator, task: Task, options: Asynchronous) -> None:
        self._comm = comm
        self._task = task
        self._aware = options.staleness_aware
        # Updates are made from rank 0's row; the others are for messages.
        self._flat = FlatParameters(task.model, rows=comm.size)
        self._whole_model = WholeModel(task, self._flat)
        self._connections = [Connection(comm, self._flat, rank=rank) for rank in workers_of(comm)]
        self._silent: list[Connection] = []  # those with nothing to say until all ranks have met
        self._listening = False
        self._asking: list[Connection] = []  # those without an answer, in the order that they came
        self._assignments = Assignments(lead=options.max_staleness)
        self._told: Counter[int] = Counter()  # by batch: who knows that none is left
        self._batches = 0
        self._version = 0
        self._record = StalenessRecord()

    def step(self, batch: Batch) -> Outcome:
        """Serve everybody, whatever batch they are at, until all know that none is left of this."""
        self._flat.attach(0)
        self._listen()
        while self._told[self._batches] < len(self._connections):
            self._serve()
        del self._told[self._batches]
        self._batches += 1
        return NOTHING

    def sync(self) -> None:
        """Serve until everybody is here, and everything applied; then share the weights."""
        self._listen()
        while len(self._silent) < len(self._connections):
            self._serve()
        assert self._assignments.settled, "a part that was handed out has not come back"
        self._listening = False
        _share_weights(self._comm, self._task, self._flat)

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
                block.rows[0].copy_(block.rows[connection.rank])
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


@final
class AsynchronousWorker(Worker):
    """Any other rank: computes parts as long as there are any."""

    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm = comm
        self._task = task
        self._flat = FlatParameters(task.model)
        self._pass = make_pass(task)
        self._answer = torch.zeros(2, dtype=torch.int64)
        self._gradient = [
            Message(block.rows[0], SERVER, tag) for tag, block in enumerate(self._flat.blocks)
        ]
        self._weights = weights_for([SERVER], self._flat)
        self._batches = 0
        self._version = 0

    def step(self, batch: Batch) -> Outcome:
        """Compute parts of this batch, as many as rank 0 hands out to this rank."""
        self._flat.attach(0)  # before weights come, which are not to be taken for a caller's own
        outcomes = []
        part = self._ask(batch, has_gradient=False)
        while part != NONE_LEFT:
            outcomes.append(self._compute(batch, part))
            part = self._ask(batch, has_gradient=True)
        self._batches += 1
        return joined(outcomes)

    def _ask(self, batch: Batch, *, has_gradient: bool) -> int:
        """Hand in the last part, if there is one, for another; NONE_LEFT ends the batch."""
        workers = self._comm.size - 1
        note = WorkRequest(
            self._batches, min(workers, batch.size), has_gradient, version=self._version
        ).pack()
        with phase("exchange"):
            gradient = self._gradient if has_gradient else []
            send_all(self._comm, [Message(note, SERVER, REQUEST), *gradient])
        with phase("wait"):
            self._comm.receive(self._answer, SERVER, tag=REQUEST)
            part, self._version = self._answer.tolist()
            if part != NONE_LEFT:
                receive_all(self._comm, self._weights)
        return int(part)

    def _compute(self, batch: Batch, part: int) -> Outcome:
        self._flat.attach(0)
        seed_part(self._task.seed, self._batches, part)
        with phase("load"):
            samples = batch.part(part, of=self._comm.size - 1)
        outcome = accumulate_gradients(
            self._task, samples, batch_size=len(samples.targets), run=self._pass
        )
        self._flat.collect(0)
        return outcome

    def sync(self) -> None:
        """Wait until everybody is here, and everything applied; then take over the weights."""
        send_all(self._comm, [Message(WorkRequest(syncs=True).pack(), SERVER, REQUEST)])
        _share_weights(self._comm, self._task, self._flat)

    def report(self) -> Sequence[TextTable]:
        nothing: tuple[TextTable, ...] = ()
        return self._comm.broadcast_object(nothing)


def _share_weights(comm: Communicator, task: Task, flat: FlatParameters) -> None:
    """Collective. Rank 0's weights for everybody, and the mean of the workers' statistics."""
    flat.attach(0)
    for block in flat.blocks:
        comm.broadcast(block.values, SERVER)
    average_buffers(comm, task.model, serving=1)
