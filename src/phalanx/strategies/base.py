"""The seam between a trainer and the ways to train in parallel.

A *strategy* is a small frozen recipe. Binding it to a communicator and a *task* (model, optimizer,
loss) gives this rank's live *worker*, which takes global batches and does this rank's part.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, Weigh, plain
from phalanx.state import State
from phalanx.strategies.loss_scale import LossScale
from phalanx.strategies.model_parts import ModelParts
from phalanx.strategies.rules import check_task

Reduction = Literal["mean", "sum"]


@dataclass(frozen=True)
class Loss:
    """A loss over a batch, and whether it is a mean or a sum over the samples.

    A mean in which samples count differently has a function `weigh`: what the targets of some
    samples weigh together. Its `function` gives the weighted sum, which the weight of the whole
    batch divides, wherever its parts are computed; or the mean itself, if it is `averaged`.
    """

    function: Callable[[Any, Any], Tensor]
    reduction: Reduction = "mean"
    weigh: Weigh | None = None
    #: Whether nobody has said that it is a mean, or a sum: the first steps of a training then look.
    assumed: bool = False
    averaged: bool = False

    def weight(self, targets: Any) -> float | Tensor:
        """What some samples count for in a mean."""
        return len(targets) if self.weigh is None else self.weigh(plain(targets))

    def whole(self, batch: "Weighed") -> float:
        """What a global batch counts for."""
        return batch.size if self.weigh is None else batch.weight(self.weigh)

    def share(self, part: float | Tensor, whole: float) -> float:
        """What the value of a part counts for in the loss of the whole batch, by their weights."""
        if self.reduction == "sum":
            return 1.0
        if not whole:
            return math.nan  # as torch has it for a mean of nothing
        return float(part) / whole if self.weigh is None or self.averaged else 1 / whole

    def total(self, value: float | Tensor, weight: float | Tensor) -> float | Tensor:
        """The loss summed over samples of this weight, from its value over them."""
        weighed = self.weigh is not None and not self.averaged
        return value if self.reduction == "sum" or weighed else value * weight


@dataclass(frozen=True)
class Objective:
    """What a training makes small, as a function of the model and a whole batch: any nest of
    tensors. It gives a loss, or a loss and the model's outputs.

    The loss is a mean over the samples. If it is one over something else (tokens that are not
    padding, samples that count differently), `weigh` says what a batch has of that.
    """

    function: Callable[[nn.Module, Any], Any]
    weigh: Weigh | None = None
    #: Whether nobody has said that it is a mean: the first steps of a training then look.
    assumed: bool = False
    #: Whether batches are pairs of inputs and targets, and the outputs are answers to them: on the
    #: command line, where data has a task, they are measured as those of a loss are.
    answers: bool = False

    def outcome(self, loss: float | Tensor, passed: "Piece", weight: float | Tensor) -> "Outcome":
        """What a pass came to, with the loss summed."""
        if self.answers and isinstance(passed.outputs, Tensor):
            return Outcome(loss, passed.batch[1], passed.outputs, weight, (passed,))
        return Outcome(loss, None, None, weight, (passed,))

    def as_loss(self) -> Loss:
        """How its values over the parts of a batch make that of the whole."""
        return Loss(_of_no_outputs, weigh=self.weigh, averaged=True)


def _of_no_outputs(_outputs: Any, _targets: Any) -> Tensor:
    raise AssertionError("an objective is no function of outputs and targets")


class Weighed(Protocol):
    """A global batch, as far as the weight of its samples is concerned."""

    @property
    def size(self) -> int:
        """The number of samples over all parts, on all ranks."""

    def weight(self, weigh: Weigh) -> float:
        """What the targets of all of them weigh together."""


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
    #: Whether a strategy may lay out images as is fastest with what it makes of a batch.
    free_layout: bool = False
    #: Of whole batches, in place of a loss of outputs and targets.
    objective: Objective | None = None
    #: Of losses before their backward pass, if that is in float16; made by itself.
    scale: LossScale | None = None

    def __post_init__(self) -> None:
        check_task(self)
        if self.autocast is torch.float16 and self.scale is None:
            object.__setattr__(self, "scale", LossScale())

    def scaled(self, share: float) -> float:
        """What to multiply a loss by before its backward pass, which counts for a share."""
        return share if self.scale is None else share * self.scale.value

    def unscale(self, gradients: Sequence[Tensor], comm: Communicator | None = None) -> bool:
        """Collective, with a communicator. Scale summed gradients back; whether to step with them.
        Who has but a part of the sum gives a communicator of all who have the others."""
        return self.scale is None or self.scale.unscale(gradients, comm)


def number(value: Tensor) -> float | Tensor:
    """A tensor's only number; one on a GPU as it is, exact and still there: nobody waits for it."""
    return value.detach().double() if value.is_cuda else value.item()


@dataclass(frozen=True)
class Outcome:
    """One step on one rank: its samples' loss summed, their targets, the model's outputs.

    A rank without samples has neither targets nor outputs, and neither has an objective of the
    user's own, unless they are answers: it has `pieces`, the batch of each pass and its outputs.
    The weight of the samples is their number, unless the loss weighs them. On a GPU both may be
    tensors: `float(outcome.loss)` waits for it.
    """

    loss: float | Tensor
    targets: Tensor | None
    outputs: Tensor | None
    weight: float | Tensor | None = None
    pieces: tuple["Piece", ...] = ()

    @property
    def samples(self) -> int:
        """How many this rank had."""
        if self.pieces:
            return sum(one.samples for one in self.pieces)
        return 0 if self.targets is None else len(self.targets)


@dataclass(frozen=True)
class Piece:
    """A batch that one pass went over, and the outputs, if there are any to keep."""

    batch: Any
    outputs: Any
    samples: int


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
    #: Whether all ranks' models hold the same weights between steps.
    replicates: bool = False
    #: Whether it takes batches as the user's data set has them, not as inputs and targets.
    whole_batches: bool = False
    #: This rank's part of a model that no rank has as a whole; else `sync` makes it whole, and
    #: `state` gives copies, and not views of what is trained.
    model_parts: ModelParts | None = None

    @abstractmethod
    def step(self, batch: Batch) -> Outcome:
        """Collective. One step on a global batch; returns this rank's part of its outcome."""

    @abstractmethod
    def sync(self) -> None:
        """Collective. Afterwards every rank's model holds the trained weights."""

    def lend(self) -> None:  # noqa: B027 (nothing to do, unless ranks share a model)
        """Collective. Until the next step, no other rank sees what is done to this one's model."""

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
