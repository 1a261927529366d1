"""`pipeline`: consecutive layers on different ranks, micro-batches in flight between them.

Known elsewhere as model parallelism by layers; the schedule is that of PipeDream and Megatron, one
forward and one backward pass in turn. Each rank computes one stage, a run of layers, and keeps the
weights, gradients and optimizer state of that stage alone. Stages are cut so that the slowest is as
fast as can be, by times measured on the first batch, or where the user says.

The whole model is on every rank before the first step, and again whenever weights are read.

With `replicas`, several such pipelines train side by side, each on its share of every batch, and
add up the gradients of each stage. With fixed shards every shard is a micro-batch: random numbers
and running statistics are then those of one rank that computes shard after shard. Without, a
BatchNorm sees micro-batches one after the other, as in a plain loop over them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from torch.optim import LBFGS

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.errors import UsageError
from phalanx.state import State
from phalanx.strategies.base import Outcome, Strategy, Task, TextTable, Worker
from phalanx.strategies.building_blocks.in_pieces import guard
from phalanx.strategies.building_blocks.replica_groups import arrange_replicas
from phalanx.strategies.building_blocks.whole_model import (
    broadcast_model,
    load_whole,
    whole_state,
)
from phalanx.strategies.pipeline.cutting import Cutter
from phalanx.strategies.pipeline.micro_batches import divide
from phalanx.strategies.pipeline.stage import Stage
from phalanx.strategies.pipeline.stages import (
    check_count,
    check_cut,
    find_layers,
    find_ties,
)
from phalanx.strategies.pipeline.tables import tables
from phalanx.strategies.rules import check_bound, check_fields


@dataclass(frozen=True)
class Pipeline(Strategy):
    """A stage a rank."""

    #: The layers that stages begin with, but for the first; None to have them measured.
    cut: tuple[int, ...] | None = None
    #: Parts of a replica's share of a batch; None for the shards, or else twice the stages.
    micro_batches: int | None = None
    #: Copies of the model, each over its own ranks.
    replicas: int = 1

    def __post_init__(self) -> None:
        check_fields("pipeline", self)

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("pipeline", self, task, ranks=comm.size)
        _check(task)
        return PipelineWorker(comm, task, self)


def _check(task: Task) -> None:
    if isinstance(task.optimizer, LBFGS):
        raise UsageError(
            "LBFGS needs all parameters and several passes for a step, and a rank of strategy "
            "'pipeline' has those of its stage alone: take another optimizer, such as SGD or Adam"
        )


@final
class PipelineWorker(Worker):
    """This rank's stage, known from the first batch on."""

    def __init__(self, comm: Communicator, task: Task, options: Pipeline) -> None:
        self._comm = comm
        self._task = task
        self._wanted = options.cut
        self._groups = groups = arrange_replicas(comm, options.replicas)
        stages = groups.members.size
        self._division = divide(
            stages=stages,
            replicas=groups.replicas,
            asked=options.micro_batches,
            shards=task.shards,
        )
        self._layers = find_layers(task.model)
        check_count(self._layers, stages)
        self._ties = find_ties(task.model, self._layers)
        if options.cut is not None:
            check_cut(options.cut, self._layers, stages=stages, ties=self._ties)
        known = set(task.model.modules())
        #: Modules that `stages()` has made, which the model's own `train()` does not reach.
        self._made = [
            module for layer in self._layers for module in layer.modules() if module not in known
        ]
        broadcast_model(comm, task.model)
        self._guard = guard(task.optimizer)
        self._stage: Stage | None = None

    def step(self, batch: Batch) -> Outcome:
        for module in self._made:
            module.training = self._task.model.training
        if self._stage is None:
            self._stage = self._cut(batch)
        return self._stage.step(batch, self._division.parts(batch, self._groups.replica))

    def _cut(self, batch: Batch) -> Stage:
        """Collective. Cut the model by the first micro-batch of a batch."""
        cutter = Cutter(
            self._comm,
            self._groups,
            layers=self._layers,
            ties=self._ties,
            loss=self._task.loss,
            hands_on_random=self._task.shards is not None,
        )
        with phase("prepare"):
            samples = batch.part(0, self._division.of(batch))
            cut = cutter.cut(samples, self._wanted)
            return Stage(self._groups, self._task, layers=self._layers, cut=cut)

    def sync(self) -> None:
        """Every stage's weights and buffers go to all ranks, which keep them until they train."""
        if self._stage is not None:
            self._stage.collect()

    def state(self) -> State:
        """Of this rank's stage; before the first batch, nothing is cut yet."""
        return whole_state(self._task) if self._stage is None else self._stage.state()

    def load(self, state: State) -> None:
        if self._stage is None:
            load_whole(self._task, state)
        else:
            self._stage.load(state)

    def close(self) -> None:
        if self._stage is not None:
            self._stage.close()
        self._guard.remove()
        self._groups.free()

    def report(self) -> Sequence[TextTable]:
        if self._stage is None:
            return ()
        times = self._comm.allgather_objects(self._stage.passes.times)
        return tables(self._stage.cut, times, micro_batches=self._division.each)
