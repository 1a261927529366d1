"""A step of a user's own: two optimizers, adversarial training, several backward passes.

Every rank holds the model, calls the function on its part of the batch, and adds up gradients by
MPI_Allreduce whenever the function has an optimizer step: what `single` and `allreduce` do for one
loss. No other strategy takes such a function: it gives them no place to cut.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, plain
from phalanx.errors import UsageError
from phalanx.state import State
from phalanx.strategies.base import Outcome, Piece, Strategy, Task, Worker
from phalanx.strategies.building_blocks.randomness import seed_part
from phalanx.strategies.building_blocks.rank_buffers import RankBuffers
from phalanx.strategies.building_blocks.whole_model import (
    broadcast_model,
    in_place,
    load_whole,
    whole_state,
)


@final
class Optimizers(Optimizer):
    """Several optimizers over parts of one model, as one that a Trainer takes.

    Each is stepped by itself, in a step of your own; their hyper-parameters and what they keep
    about each parameter are one state.
    """

    def __init__(self, *optimizers: Optimizer) -> None:
        super().__init__([group for one in optimizers for group in one.param_groups], {})
        self.each = optimizers
        for one in optimizers:
            self.state.update(one.state)
            one.state = self.state  # each looks up its own parameters alone

    def step(self, closure: Any = None) -> Any:
        """Not all of them at once."""
        raise UsageError("several optimizers step one by one, in phalanx.OwnStep's function")


@dataclass(frozen=True)
class OwnStep(Strategy):
    """Train by a function of a `Step` and this rank's part of a batch, in any nest of tensors.

    It returns the loss to report, a mean over the samples, or that and outputs for metrics.
    """

    function: "Callable[[Step, Any], Any]" = field(repr=False)

    def bind(self, comm: Communicator, task: Task) -> Worker:
        asked = {"shards": task.shards, "clip_norm": task.clip_norm, "autocast": task.autocast}
        asked |= {"compile": task.compile or None}
        asked |= {"accumulate": task.accumulate if task.accumulate > 1 else None}
        for name, value in asked.items():
            if value is not None:
                raise UsageError(
                    f"{name}={value} is for steps that Phalanx makes: leave it out, and do as much "
                    "in the step of your own"
                )
        return OwnStepWorker(comm, task, self.function)


@final
class Step:
    """What a function of the user's own steps with."""

    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm, self.model = comm, task.model
        joined = task.optimizer
        #: In the order in which they were given.
        self.optimizers = joined.each if isinstance(joined, Optimizers) else (joined,)
        self.share = 1.0

    def minimise(self, loss: Tensor, optimizer: Optimizer | None = None) -> None:
        """Collective. One step of an optimizer down the gradient of a mean over the samples."""
        self._chosen(optimizer).zero_grad()
        self.backward(loss)
        self.update(optimizer)

    def backward(self, loss: Tensor, *, retain_graph: bool = False) -> None:
        """Add the gradient of a mean over the samples to every `.grad`."""
        with phase("backward"):
            counted = loss * self.share  # see `passes.backward`
            counted.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]

    def update(self, optimizer: Optimizer | None = None) -> None:
        """Collective. Add up the gradients of all ranks, step the optimizer, and clear them."""
        chosen = self._chosen(optimizer)
        with phase("exchange"):
            _add_up(self._comm, [one for group in chosen.param_groups for one in group["params"]])
        with phase("update"):
            chosen.step()
            chosen.zero_grad()

    def _chosen(self, optimizer: Optimizer | None) -> Optimizer:
        if optimizer is not None:
            return optimizer
        if len(self.optimizers) > 1:
            raise UsageError("there are several optimizers: say which of them is to step")
        return self.optimizers[0]


@final
class OwnStepWorker(Worker):
    replicates = True
    whole_batches = True

    def __init__(
        self, comm: Communicator, task: Task, function: Callable[[Step, Any], Any]
    ) -> None:
        self._comm, self._task, self._function = comm, task, function
        broadcast_model(comm, task.model)
        self._step = Step(comm, task)
        self._buffers = RankBuffers(task.model, comm)

    def step(self, batch: Batch) -> Outcome:
        if batch.size < self._comm.size:
            raise UsageError(
                f"a batch of {batch.size} leaves some of {self._comm.size} ranks without a sample, "
                "and a step of your own needs one: leave the last batch out (steps_per_epoch=…)"
            )
        seed_part(self._task.seed, batch.step, self._comm.rank)
        with phase("load"):
            samples = batch.part(self._comm.rank, of=self._comm.size)
        count, content = len(samples.targets), plain(samples.inputs)
        self._step.share = count / batch.size
        self._buffers.begin()
        found = self._function(self._step, content)
        loss, outputs = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        if not isinstance(loss, Tensor | float | int):
            raise UsageError(
                f"a step of your own returns the loss to report, or that and outputs, not {loss!r}"
            )
        self._buffers.finish(batch.size)
        return Outcome(float(loss) * count, None, None, count, (Piece(content, outputs, count),))

    def sync(self) -> None:
        """Weights and statistics are the same everywhere already, as far as anybody noticed."""
        self._buffers.average()

    def state(self) -> State:
        self.sync()
        return whole_state(self._task)

    def load(self, state: State) -> None:
        load_whole(self._task, state)

    def close(self) -> None:
        """Nothing to give back."""


@torch.no_grad()
def _add_up(comm: Communicator, parameters: list[nn.Parameter]) -> None:
    """Collective. Sum gradients; a parameter that no rank has one for stays without."""
    if comm.size == 1:
        return
    marks = torch.tensor([float(one.grad is not None) for one in parameters])
    comm.allreduce(marks)
    used = [one for one, mark in zip(parameters, marks.tolist(), strict=True) if mark]
    for dtype in dict.fromkeys(one.dtype for one in used):
        these = [one for one in used if one.dtype == dtype]
        for one in these:
            one.grad = torch.zeros_like(one) if one.grad is None else one.grad
        flat = torch.cat([one.grad.reshape(-1) for one in these if one.grad is not None])
        in_place(comm.allreduce, flat)
        start = 0
        for one in these:
            assert one.grad is not None
            one.grad.copy_(flat[start : start + one.numel()].view_as(one))
            start += one.numel()
