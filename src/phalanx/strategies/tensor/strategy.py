"""`tensor`: the weights of each linear and convolutional layer split over the ranks.

Known elsewhere as model parallelism inside layers, or Megatron's. All ranks of a replica compute
the same samples, each with its piece of every split layer; see `plan.py` for which are split
and how. Weights, gradients and optimizer state of those layers exist once over the ranks. With
several replicas, each trains on its part of a batch, and ranks with the same pieces add up their
gradients.

The model is split during steps alone: `sync` makes it whole, with its own forward passes, and the
next step splits it again. The optimizer's state stays in pieces, of which `state` says what they
are. A model in parts (`phalanx.in_parts`) stays split, and no rank ever has it as a whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, cut
from phalanx.exchange.flat import FlatParameters
from phalanx.models.in_parts import device_of, is_in_parts
from phalanx.state import State
from phalanx.strategies.base import Outcome, Strategy, Task, TextTable, Worker
from phalanx.strategies.building_blocks.clipping import clip_factor
from phalanx.strategies.building_blocks.in_pieces import (
    end_guard,
    guard,
    mark_in_pieces,
)
from phalanx.strategies.building_blocks.initial_parts import (
    InitialParts,
    check_optimizer,
    give_up,
    make_room,
)
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.rank_buffers import make_buffers
from phalanx.strategies.building_blocks.replica_groups import Groups, arrange_replicas
from phalanx.strategies.building_blocks.sliced_optimizer import check_elementwise
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    broadcast_model,
    load_whole,
)
from phalanx.strategies.rules import check_bound
from phalanx.strategies.tensor.model import SplitModel
from phalanx.strategies.tensor.parts import TensorParts
from phalanx.strategies.tensor.plan import make_plan, plan_table


@dataclass(frozen=True)
class Tensor(Strategy):
    """Layers split over the ranks of each replica."""

    #: Copies of the model, trained in data parallelism, each by as many ranks.
    replicas: int = 1

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("tensor", self, task, ranks=comm.size)
        groups = arrange_replicas(comm, self.replicas)
        if groups.members.size > 1:
            check_elementwise(task.optimizer, strategy="tensor")
        return TensorWorker(comm, task, groups)


class TensorWorker(Worker):
    def __init__(self, comm: Communicator, task: Task, groups: Groups) -> None:
        self._task = task
        self._groups = groups
        initial = InitialParts(comm, task.model) if is_in_parts(task.model) else None
        if initial is None:
            broadcast_model(comm, task.model)
        else:
            check_optimizer(task.optimizer)
        ranks = groups.members.size
        # Of rank 0: what tracing finds could depend on more than the model.
        plan = comm.broadcast_object(make_plan(task.model, ranks))
        self._table = plan_table(task.model, plan, ranks=ranks)
        self._split = SplitModel(task.model, plan, comm=groups.members, optimizer=task.optimizer)
        self._split.split()
        self._flat = FlatParameters(task.model)
        if initial is not None:
            self._make_part(initial)
        self._whole_model = WholeModel(replace(task, clip_norm=None), self._flat)
        shards = groups.replicas if task.shards is None else task.shards
        parts = cut(shards, groups.replicas)[groups.replica]
        self._buffers = make_buffers(task.model, groups.peers, shards=task.shards)
        self._gradients = PartGradients(
            task,
            self._flat,
            parts=range(parts.start, parts.stop),
            of=shards,
            rows=[0] * (parts.stop - parts.start),
            statistics=self._buffers,
        )
        self._join()  # the model is the user's until the first step
        guard(task.optimizer)

    def _make_part(self, initial: InitialParts) -> None:
        """Make this rank's pieces of a model in parts, which stays split from here on."""
        parameters = list(self._task.model.parameters())
        make_room(parameters)  # for what is not trained
        initial.fill(parameters, self._split.portion)
        initial.finish()
        self.model_parts = TensorParts(self._task, self._split, self._groups)
        if self._groups.members.size > 1:
            mark_in_pieces(self._task.optimizer)

    def _join(self) -> None:
        """Collective. Make the model whole, unless it is in parts."""
        if self.model_parts is None:
            self._split.join()

    def step(self, batch: Batch) -> Outcome:
        self._split.split()
        if self._groups.members.size > 1:
            mark_in_pieces(self._task.optimizer)
        outcome = self._gradients.compute(batch)
        self._split.check_links()
        marks = self._add_up()
        self._buffers.finish(batch.size)
        if self._task.clip_norm is not None:
            self._clip(self._task.clip_norm)
        with phase("update"):
            self._whole_model.update(marks)
        if self._groups.members.rank == 0:
            return outcome
        # All ranks of a replica have seen the same samples, which count once.
        return Outcome(loss=0.0, targets=None, outputs=None)

    def _add_up(self) -> list[torch.Tensor]:
        """Collective. Sum gradients over the replicas; which parameters got one in any."""
        blocks, peers = self._flat.blocks, self._groups.peers
        marks = [block.marks()[0] for block in blocks]
        if peers.size > 1:
            marks = [mark.clone() for mark in marks]  # written only when they change
            with phase("exchange"):
                for block, mark in zip(blocks, marks, strict=True):
                    peers.allreduce(block.gradients)
                    peers.allreduce(mark, "maximum")
        return marks

    def _clip(self, limit: float) -> None:
        """Collective. Clip by the norm over all pieces, and over whole parameters once."""
        device = device_of(self._task.model)
        split = torch.zeros(1, dtype=torch.float64, device=device)
        whole = torch.zeros(1, dtype=torch.float64, device=device)
        for block in self._flat.blocks:
            for parameter, gradient in zip(
                block.layout.parameters, block.row_views[0], strict=True
            ):
                norm = torch.linalg.vector_norm(gradient, dtype=torch.float64)
                (split if self._split.is_split(parameter) else whole).add_(norm.square())
        with phase("exchange"):
            self._groups.members.allreduce(split)
        factor = clip_factor(split + whole, limit)
        for block in self._flat.blocks:
            block.gradients.mul_(factor)

    def sync(self) -> None:
        """Collective. The whole model on every rank, until the next step."""
        self._buffers.average()
        with phase("gather"):
            self._join()

    def state(self) -> State:
        self._buffers.average()
        return self._split.state(copy=self.model_parts is None)

    def load(self, state: State) -> None:
        """The model is whole until the next step, which cuts it and its optimizer's state."""
        self._split.join()
        load_whole(self._task, state)

    def close(self) -> None:
        if self.model_parts is None:
            self._split.join()
            self._flat.release()
        else:
            self._split.unhook()
            give_up(self._task.model.parameters())
        end_guard(self._task.optimizer)
        self._groups.free()

    def plan(self) -> Sequence[TextTable]:
        """Collective. How each layer is split."""
        return (self._table,)
