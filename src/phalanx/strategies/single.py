"""`single`: one rank, no communication. The plain torch loop that all others are compared with."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.data.split import Samples
from phalanx.exchange.flat import FlatParameters
from phalanx.state import State
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.building_blocks.closures import needs_closure, step_with_closure
from phalanx.strategies.building_blocks.part_gradients import PartGradients, accumulate_gradients
from phalanx.strategies.building_blocks.passes import make_pass
from phalanx.strategies.building_blocks.randomness import read_random, write_random
from phalanx.strategies.building_blocks.sharded_buffers import ShardedBuffers
from phalanx.strategies.building_blocks.whole_model import WholeModel, load_whole, whole_state
from phalanx.strategies.rules import check_bound


@dataclass(frozen=True)
class Single(Strategy):
    """Train on exactly one rank."""

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("single", self, task, ranks=comm.size)
        return SingleWorker(comm, task) if task.shards is None else ShardedSingleWorker(comm, task)


class SingleWorker(Worker):
    """What anybody would write in plain torch."""

    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm, self._task = comm, task
        self._has_closure = needs_closure(task.optimizer)
        #: Whether a gradient is one to step with, which under scaled losses it may not be.
        self._is_finite = True
        self._pass = make_pass(task)
        held = {one for group in task.optimizer.param_groups for one in group["params"]}
        #: Get gradients that nobody steps with, and that must not add up from step to step.
        self._others = [one for one in task.model.parameters() if one not in held]

    def step(self, batch: Batch) -> Outcome:
        task = self._task
        with phase("load"):
            samples = batch.whole()
        # On a GPU the targets are not to be asked: the batch knows them, too.
        there = batch.device is not None
        whole = task.loss.whole(batch) if there else float(task.loss.weight(samples.targets))
        if self._has_closure:
            evaluate = partial(self._evaluate, samples, whole)
            return step_with_closure(self._comm, task.optimizer, loss=task.loss, evaluate=evaluate)
        outcome = self._evaluate(samples, whole)
        with phase("update"):
            if self._is_finite:
                task.optimizer.step()
        return outcome

    def _evaluate(self, samples: Samples, whole: float) -> Outcome:
        """Forward and backward over all samples of a batch, which weigh so much."""
        task = self._task
        task.optimizer.zero_grad()
        for parameter in self._others:
            parameter.grad = None
        outcome = accumulate_gradients(task, samples, whole=whole, run=self._pass)
        if task.scale is not None:
            there = [one.grad for one in task.model.parameters() if one.grad is not None]
            self._is_finite = task.unscale(there)
        if task.clip_norm is not None:
            with phase("update"):
                torch.nn.utils.clip_grad_norm_(task.model.parameters(), task.clip_norm)
        return outcome

    def sync(self) -> None:
        """Nothing to do: the only rank has the weights."""

    def state(self) -> State:
        return whole_state(self._task).add(read_random(self._task.model))

    def load(self, state: State) -> None:
        load_whole(self._task, state)
        write_random(self._task.model, state)

    def close(self) -> None:
        """Nothing to give back."""


class ShardedSingleWorker(Worker):
    """One shard after the other, added up in their order."""

    def __init__(self, comm: Communicator, task: Task) -> None:
        assert task.shards is not None
        self._comm, self._task = comm, task
        self._has_closure = needs_closure(task.optimizer)
        self._sharded_buffers = ShardedBuffers(task.model, comm, shards=task.shards)
        self._flat = FlatParameters(task.model, rows=2)
        self._whole_model = WholeModel(task, self._flat)
        self._gradients = PartGradients(
            task,
            self._flat,
            parts=range(task.shards),
            of=task.shards,
            rows=[0, *[1] * (task.shards - 1)],
            statistics=self._sharded_buffers,
            folds=True,
        )

    def step(self, batch: Batch) -> Outcome:
        if self._has_closure:
            loss, evaluate = self._task.loss, partial(self._evaluate, batch)
            return step_with_closure(self._comm, self._task.optimizer, loss=loss, evaluate=evaluate)
        outcome = self._compute(batch)
        self._whole_model.update(self._marks)
        return outcome

    def _compute(self, batch: Batch) -> Outcome:
        outcome = self._gradients.compute(batch)
        self._sharded_buffers.finish(batch.size)
        return outcome

    def _evaluate(self, batch: Batch) -> Outcome:
        outcome = self._compute(batch)
        self._whole_model.attach(self._marks)
        return outcome

    @property
    def _marks(self) -> list[Tensor]:
        return [block.marks()[0] for block in self._flat.blocks]

    def sync(self) -> None:
        """Nothing to do: the only rank has the weights."""

    def state(self) -> State:
        return whole_state(self._task)

    def load(self, state: State) -> None:
        load_whole(self._task, state)

    def close(self) -> None:
        self._flat.release()
