"""The seam between a trainer and the ways to train in parallel.

A *strategy* is a small frozen recipe. Binding it to a communicator and a *task* (model, optimizer,
loss) gives this rank's live *worker*, which takes global batches and does this rank's part.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.state import State
from phalanx.strategies.rules import check_task

Reduction = Literal["mean", "sum"]


@dataclass(frozen=True)
class Loss:
    """A loss over a batch, and whether it is a mean or a sum over the samples."""

    function: Callable[[Tensor, Tensor], Tensor]
    reduction: Reduction = "mean"

    def share(self, part: int, whole: int) -> float:
        """What the loss of `part` samples counts for in the loss of the `whole` batch."""
        return part / whole if self.reduction == "mean" else 1.0

    def total(self, value: float, count: int) -> float:
        """The loss summed over `count` samples, from its value over them."""
        return value * count if self.reduction == "mean" else value


@dataclass(frozen=True)
class Task:
    """What is trained: the optimizer holds the model's parameters, as in plain torch."""

    model: nn.Module
    optimizer: Optimizer
    loss: Loss
    seed: int = 0
    #: Cut every global batch into so many parts, whatever the number of ranks, and add up in their
    #: order: the same weights, bit for bit, on any number of ranks up to it. None: a part a rank.
    shards: int | None = None
    #: The global norm that gradients are clipped to.
    clip_norm: float | None = None
    #: Compute each part in so many passes, one after the other, to save memory.
    accumulate: int = 1
    #: Compile forward and backward into one function, if that is faster.
    compile: bool = False
    #: What forward passes compute in where torch.autocast deems that safe; weights stay as is.
    autocast: torch.dtype | None = None

    def __post_init__(self) -> None:
        check_task(self)


@dataclass(frozen=True)
class Outcome:
    """One step on one rank: its samples' loss summed, their targets, the model's outputs.

    A rank without samples has neither targets nor outputs.
    """

    loss: float
    targets: Tensor | None
    outputs: Tensor | None


@dataclass(frozen=True)
class TextTable:
    """What a strategy wants a user to see: how it cut a model, or how a training went."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Worker(ABC):
    """One rank's live part in a parallel training."""

    #: Whether this rank computes gradients; one that only serves the others does not.
    trains: bool = True

    @abstractmethod
    def step(self, batch: Batch) -> Outcome:
        """Collective. One step on a global batch; returns this rank's part of its outcome."""

    @abstractmethod
    def sync(self) -> None:
        """Collective. Afterwards every rank's model holds the trained weights."""

    @abstractmethod
    def state(self) -> State:
        """Collective. All that the next step depends on, as copies, by name.

        It is whole, or this rank's part of the whole, which `phalanx.state.gather` puts together;
        it depends neither on the strategy nor on the number of ranks.
        """

    @abstractmethod
    def load(self, state: State) -> None:
        """Collective. Go on from a state: a whole one, of whatever strategy and ranks, or the parts
        that a worker of the same strategy gave on this very rank of as many."""

    @abstractmethod
    def close(self) -> None:
        """Collective. Give back communicators, hooks and shared memory; the model keeps its weights
        as `sync` left them. Nothing else may be called afterwards."""

    def plan(self) -> Sequence[TextTable]:
        """Collective. What is known before the first step, the same on every rank."""
        return ()

    def report(self) -> Sequence[TextTable]:
        """Collective. What is known after the last step, the same on every rank."""
        return ()


class Strategy(ABC):
    """A way to train in parallel; options are fields of a frozen dataclass."""

    @abstractmethod
    def bind(self, comm: Communicator, task: Task) -> Worker:
        """Collective. This rank's worker for the task; every rank starts from rank 0's weights."""
