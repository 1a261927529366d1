"""`pipeline`: consecutive layers on different ranks, micro-batches in flight between them.

Known elsewhere as model parallelism by layers; the schedule is that of PipeDream and Megatron, one
forward and one backward pass in turn. Each rank computes one stage, a run of layers, and keeps the
weights, gradients and optimizer state of that stage alone. Stages are cut so that the slowest is as
fast as can be, by times measured on the first batch, or where the user says.

The whole model is on every rank before the first step, and again whenever weights are read; unless
it is in parts (`phalanx.in_parts`), which no rank ever has as a whole.

With `replicas`, several such pipelines train side by side, each on its share of every batch, and
add up the gradients of each stage. With fixed shards every shard is a micro-batch: random numbers
and running statistics are then those of one rank that computes shard after shard. Without, a
BatchNorm sees micro-batches one after the other, as in a plain loop over them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, plain
from phalanx.models.in_parts import is_in_parts
from phalanx.state import State
from phalanx.strategies.base import Outcome, Strategy, Task, TextTable, Worker
from phalanx.strategies.building_blocks.closures import refuse_closure
from phalanx.strategies.building_blocks.in_pieces import end_guard, guard
from phalanx.strategies.building_blocks.initial_parts import InitialParts, check_optimizer
from phalanx.strategies.building_blocks.replica_groups import arrange_replicas
from phalanx.strategies.building_blocks.whole_model import (
    broadcast_model,
    load_whole,
    whole_state,
)
from phalanx.strategies.pipeline.cutting import Cut, Cutter
from phalanx.strategies.pipeline.micro_batches import divide
from phalanx.strategies.pipeline.parts import PipelineParts
from phalanx.strategies.pipeline.stage import Stage
from phalanx.strategies.pipeline.stages import (
    check_count,
    check_cut,
    find_layers,
    find_ties,
)
from phalanx.strategies.pipeline.tables import tables
from phalanx.strategies.pipeline.unseen import cut_by_bytes
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
        refuse_closure(task.optimizer, strategy="pipeline")
        return PipelineWorker(comm, task, self)


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
        self._cutter = Cutter(
            self._comm,
            self._groups,
            layers=self._layers,
            ties=self._ties,
            loss=self._task.loss,
            hands_on_random=self._task.shards is not None,
            free_layout=self._task.free_layout,
        )
        self._stage: Stage | None = None
        if is_in_parts(task.model):
            self._stage = self._make_part(stages)
            self.model_parts = PipelineParts(self._stage, groups, self._connect)
        else:
            broadcast_model(comm, task.model)
        guard(task.optimizer)

    def step(self, batch: Batch) -> Outcome:
        self._set_modes()
        if self._stage is None:
            self._stage = self._cut(batch)
        elif not self._stage.is_connected:
            self._connect(batch.part(0, self._division.of(batch)).inputs)
        return self._stage.step(batch, self._division.parts(batch, self._groups.replica))

    def _set_modes(self) -> None:
        """Have all layers train, or evaluate, as the model does."""
        for module in self._made:
            module.training = self._task.model.training

    def _cut(self, batch: Batch) -> Stage:
        """Collective. Cut the model by the first micro-batch of a batch."""
        with phase("prepare"):
            samples = batch.part(0, self._division.of(batch))
            cut = self._cutter.cut(samples, self._wanted)
            return Stage(self._groups, self._task, layers=self._layers, cut=cut)

    def _make_part(self, stages: int) -> Stage:
        """Collective. Cut a model in parts, by its bytes, and make this rank's stage."""
        check_optimizer(self._task.optimizer)
        initial = InitialParts(self._comm, self._task.model)
        if self._wanted is None:
            self._wanted = cut_by_bytes(self._layers, self._ties, stages=stages)
        cut = Cut((0, *self._wanted), len(self._layers), borders=(), samples=0)
        stage = Stage(self._groups, self._task, layers=self._layers, cut=cut, initial=initial)
        initial.finish()
        return stage

    def _connect(self, inputs: torch.Tensor) -> None:
        """Let the stages know what passes between them, before the first samples come."""
        self._set_modes()
        assert self._stage is not None
        assert self._wanted is not None
        if not self._stage.is_connected:
            with phase("prepare"):
                self._stage.connect(self._cutter.connect(self._wanted, plain(inputs)))

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
        end_guard(self._task.optimizer)
        self._groups.free()

    def report(self) -> Sequence[TextTable]:
        if self._stage is None or not self._stage.is_connected:
            return ()
        times = self._comm.allgather_objects(self._stage.passes.times)
        return tables(self._stage.cut, times, micro_batches=self._division.each)
