"""A strategy of one's own: decentralised SGD, where ranks talk to their neighbours alone.

    phalanx train --strategy examples/own_strategy.py:Gossip --ranks 6 --neighbours 2

The ranks form a ring. Each one steps its own optimizer on its part of every batch, and then takes
the mean of its weights and those of the ranks beside it. No step waits for all ranks, and a rank's
traffic does not grow with their number; what one learns still goes round the ring in a few steps.

The fields of the class that have defaults are its options: `neighbours` is a flag, a key of a
config file and an argument, and the comment above it is its help.
"""

from dataclasses import dataclass

import torch

from phalanx import (
    Batch,
    Communicator,
    FlatParameters,
    Outcome,
    PartGradients,
    State,
    Strategy,
    Task,
    UsageError,
    WholeModel,
    Worker,
    average_buffers,
    broadcast_model,
    load_whole,
    whole_state,
)


@dataclass(frozen=True)
class Gossip(Strategy):
    """The recipe: bound to a communicator and a task, it gives this rank's worker."""

    #: Ranks on each side of a rank whose weights it takes.
    neighbours: int = 1

    def __post_init__(self) -> None:
        if self.neighbours < 1:
            raise UsageError(f"neighbours must be at least 1, not {self.neighbours}")

    def bind(self, comm: Communicator, task: Task) -> Worker:
        if task.shards is not None:
            raise UsageError("Gossip gives other weights on other ranks: leave out the shards")
        return GossipWorker(comm, task, self.neighbours)


class GossipWorker(Worker):
    def __init__(self, comm: Communicator, task: Task, neighbours: int) -> None:
        self._comm, self._task = comm, task
        broadcast_model(comm, task.model)  # every rank starts from rank 0's weights
        self._flat = FlatParameters(task.model)  # all weights of a dtype in one tensor, to be sent
        self._whole_model = WholeModel(task, self._flat)
        # This rank's part of a batch; accumulation, compiled passes and empty parts included.
        mine = range(comm.rank, comm.rank + 1)
        self._gradients = PartGradients(task, self._flat, parts=mine, of=comm.size, rows=[0])
        # All others of a small ring, none of one rank. Buffers are made once, not every step.
        steps = range(-neighbours, neighbours + 1)
        beside = sorted({(comm.rank + step) % comm.size for step in steps} - {comm.rank})
        self._inboxes = [
            {rank: torch.empty_like(block.values) for rank in beside} for block in self._flat.blocks
        ]

    def step(self, batch: Batch) -> Outcome:
        outcome = self._gradients.compute(batch)
        for block in self._flat.blocks:  # a part's share in the batch, as if all were like it
            block.gradients.mul_(self._comm.size)
        self._whole_model.update([block.marks()[0] for block in self._flat.blocks])
        for block, inbox in zip(self._flat.blocks, self._inboxes, strict=True):
            self._mix(block.values, inbox)
        return outcome

    def _mix(self, weights: torch.Tensor, inbox: dict[int, torch.Tensor]) -> None:
        pending = [self._comm.ireceive(buffer, rank) for rank, buffer in inbox.items()]
        pending += [self._comm.isend(weights, rank) for rank in inbox]
        for request in pending:
            request.wait()
        for received in inbox.values():
            weights.add_(received)
        weights.div_(1 + len(inbox))

    def sync(self) -> None:
        """Whoever reads the weights wants one set of them: the mean over all ranks."""
        for block in self._flat.blocks:
            self._comm.allreduce(block.values)
            block.values.div_(self._comm.size)
        average_buffers(self._comm, self._task.model)

    def state(self) -> State:
        """All that the next step depends on: of weights of one's own, the mean over the ranks."""
        self.sync()
        return whole_state(self._task)

    def load(self, state: State) -> None:
        load_whole(self._task, state)

    def close(self) -> None:
        self._flat.release()
