"""Any other rank of `async`: computes parts of batches as long as there are any."""

from collections.abc import Sequence
from typing import final

import torch

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.exchange.flat import FlatParameters
from phalanx.state import State
from phalanx.strategies.asynchronous.assignments import NONE_LEFT
from phalanx.strategies.asynchronous.connection import REQUEST, WorkRequest
from phalanx.strategies.asynchronous.meeting import close, share_weights
from phalanx.strategies.base import Outcome, Task, TextTable, Worker
from phalanx.strategies.building_blocks.parameter_server import (
    SERVER,
    Message,
    gradients_for,
    receive_all,
    send_all,
    weights_for,
)
from phalanx.strategies.building_blocks.part_gradients import accumulate_gradients, joined
from phalanx.strategies.building_blocks.passes import make_pass
from phalanx.strategies.building_blocks.randomness import seed_part
from phalanx.strategies.building_blocks.whole_model import (
    load_whole,
)


@final
class AsynchronousWorker(Worker):
    """Any other rank: computes parts as long as there are any."""

    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm = comm
        self._task = task
        self._flat = FlatParameters(task.model)
        self._pass = make_pass(task)
        self._answer = torch.zeros(2, dtype=torch.int64)
        self._gradient = gradients_for(SERVER, self._flat, 0)
        self._weights = weights_for([SERVER], self._flat)
        self._version = 0

    def step(self, batch: Batch) -> Outcome:
        """Compute parts of this batch, as many as rank 0 hands out to this rank."""
        self._flat.attach(0)  # before weights come, which are not to be taken for a caller's own
        outcomes = []
        part = self._ask(batch, has_gradient=False)
        while part != NONE_LEFT:
            outcomes.append(self._compute(batch, part))
            part = self._ask(batch, has_gradient=True)
        return joined(outcomes)

    def _ask(self, batch: Batch, *, has_gradient: bool) -> int:
        """Hand in the last part, if there is one, for another; NONE_LEFT ends the batch."""
        workers = self._comm.size - 1
        note = WorkRequest(
            batch.step, min(workers, batch.size), has_gradient, version=self._version
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
        seed_part(self._task.seed, batch.step, part)
        with phase("load"):
            samples = batch.part(part, of=self._comm.size - 1)
        # A part in which nothing counts has no gradient: other parts of the batch may have one.
        whole = float(self._task.loss.weight(samples.targets)) or 1.0
        outcome = accumulate_gradients(self._task, samples, whole=whole, run=self._pass)
        self._flat.collect(0)
        return outcome

    def sync(self) -> None:
        """Wait until everybody is here, and everything applied; then take over the weights."""
        send_all(self._comm, [Message(WorkRequest(syncs=True).pack(), SERVER, REQUEST)])
        share_weights(self._comm, self._task, self._flat)

    def state(self) -> State:
        """Rank 0 has all of it, once everything is applied."""
        self.sync()
        return State()

    def load(self, state: State) -> None:
        load_whole(self._task, state, entries=False)

    def close(self) -> None:
        close(self._comm, self._flat)

    def report(self) -> Sequence[TextTable]:
        nothing: tuple[TextTable, ...] = ()
        return self._comm.broadcast_object(nothing)
