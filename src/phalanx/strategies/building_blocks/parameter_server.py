"""What strategies with a server share: rank 0 keeps the main network, the others train for it.

Here is also the plain form of it, in step: the workers compute their parts of a global batch and
send rank 0 their gradients; it adds them up in the parts' order, steps the optimizer and sends all
of them the new weights.
"""

from collections.abc import Iterable
from typing import NamedTuple, final

from torch import Tensor

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, cut
from phalanx.exchange.flat import FlatParameters
from phalanx.exchange.rows import RowSum
from phalanx.state import State
from phalanx.strategies.base import Outcome, Task, Worker
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.rank_buffers import Buffers, make_buffers
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    broadcast_model,
    load_whole,
    whole_state,
)

SERVER = 0
#: What a rank that computes nothing has to say about a step.
NOTHING = Outcome(loss=0.0, targets=None, outputs=None)


class Message(NamedTuple):
    """A buffer that goes to, or comes from, another rank."""

    buffer: Tensor
    rank: int
    tag: int


def send_all(comm: Communicator, messages: Iterable[Message]) -> None:
    """Send messages side by side; returns when the buffers may be changed again."""
    started = [comm.isend(one.buffer, one.rank, tag=one.tag) for one in messages]
    for request in started:
        request.wait()


def receive_all(comm: Communicator, messages: Iterable[Message]) -> None:
    """Receive messages, in whatever order they come."""
    started = [comm.ireceive(one.buffer, one.rank, tag=one.tag) for one in messages]
    for request in started:
        request.wait()


def weights_for(ranks: Iterable[int], flat: FlatParameters) -> list[Message]:
    """The weights, block by block, to or from each of these ranks."""
    return [
        Message(block.values, rank, tag) for rank in ranks for tag, block in enumerate(flat.blocks)
    ]


def gradients_for(rank: int, flat: FlatParameters, rows: int | slice) -> list[Message]:
    """Some rows of gradients, and what belongs to them, to or from a rank."""
    tensors = [one for block in flat.blocks for one in block.messages(rows)]
    return [Message(one, rank, tag) for tag, one in enumerate(tensors)]


def workers_of(comm: Communicator) -> range:
    """The ranks that train."""
    return range(SERVER + 1, comm.size)


def serve_in_step(comm: Communicator, task: Task) -> Worker:
    """Collective. This rank's worker for a server that waits for every worker in every step."""
    broadcast_model(comm, task.model)
    return InStepServer(comm, task) if comm.rank == SERVER else InStepWorker(comm, task)


class _Shares(NamedTuple):
    """How the parts of a global batch, by default one a worker, are shared out."""

    parts: int
    #: Each rank's own; the first is rank 0's, which has none.
    of_rank: list[slice]

    def buffers(self, comm: Communicator, task: Task) -> Buffers:
        return make_buffers(
            task.model, comm, shards=task.shards, parts=self.of_rank, serving=SERVER + 1
        )


def _share_out(comm: Communicator, task: Task) -> _Shares:
    workers = comm.size - 1
    parts = workers if task.shards is None else task.shards
    return _Shares(parts, [slice(0, 0), *cut(parts, workers)])


@final
class InStepServer(Worker):
    """Rank 0: the main network and the optimizer. A row of gradients for every part of a batch."""

    trains = False
    replicates = True

    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm = comm
        self._task = task
        shares = _share_out(comm, task)
        self._flat = FlatParameters(task.model, rows=shares.parts)
        self._whole_model = WholeModel(task, self._flat)
        self._buffers = shares.buffers(comm, task)
        self._gradients = [
            one
            for rank, part in enumerate(shares.of_rank)
            if part.stop > part.start
            for one in gradients_for(rank, self._flat, part)
        ]
        self._weights = weights_for(workers_of(comm), self._flat)
        self._sums = [
            RowSum(block.rows, slice(0, block.layout.length)) for block in self._flat.blocks
        ]

    def step(self, batch: Batch) -> Outcome:
        self._flat.attach(0)
        with phase("wait"):
            receive_all(self._comm, self._gradients)
        with phase("update"):
            for total in self._sums:
                total.add_up()
            self._whole_model.update([block.marks().amax(0) for block in self._flat.blocks])
        with phase("exchange"):
            send_all(self._comm, self._weights)
            self._buffers.finish(batch.size)
        return NOTHING

    def sync(self) -> None:
        """Weights and statistics are the same everywhere already, as far as anybody noticed."""
        self._buffers.average()

    def state(self) -> State:
        self.sync()
        return whole_state(self._task)

    def load(self, state: State) -> None:
        load_whole(self._task, state)

    def close(self) -> None:
        self._flat.release()


@final
class InStepWorker(Worker):
    """Any other rank: gradients of its parts for weights."""

    replicates = True

    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm = comm
        self._task = task
        shares = _share_out(comm, task)
        mine = shares.of_rank[comm.rank]
        count = mine.stop - mine.start
        self._flat = FlatParameters(task.model, rows=max(1, count))
        self._buffers = shares.buffers(comm, task)
        self._parts = PartGradients(
            task,
            self._flat,
            parts=range(mine.start, mine.stop),
            of=shares.parts,
            rows=range(count),
            statistics=self._buffers,
        )
        self._gradients = gradients_for(SERVER, self._flat, slice(0, count)) if count else []
        self._weights = weights_for([SERVER], self._flat)

    def step(self, batch: Batch) -> Outcome:
        outcome = self._parts.compute(batch)
        with phase("exchange"):
            send_all(self._comm, self._gradients)
        with phase("wait"):
            receive_all(self._comm, self._weights)
        with phase("exchange"):
            self._buffers.finish(batch.size)
        return outcome

    def sync(self) -> None:
        """Weights and statistics are the same everywhere already, as far as anybody noticed."""
        self._buffers.average()

    def state(self) -> State:
        """Rank 0 has all of it."""
        self.sync()
        return State()

    def load(self, state: State) -> None:
        load_whole(self._task, state, entries=False)

    def close(self) -> None:
        self._flat.release()
