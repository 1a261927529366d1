"""A running average of the weights (EMA), which often does better than the last ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from phalanx.errors import UsageError
from phalanx.state import State
from phalanx.state.parts import Part
from phalanx.strategies.base import Outcome
from phalanx.strategies.registry import name_of
from phalanx.train.companions.callbacks import Callback

if TYPE_CHECKING:
    from phalanx.train.trainer import Trainer

_AVERAGE = "ema/"
#: Between two steps their ranks have pieces of the weights, or each its own.
_WITHOUT = ("pipeline", "tensor", "local", "async")


@final
class AveragedWeights(Callback):
    """Keeps `decay` times the average so far plus the rest of the weights, after every step.

    Give it to `fit` as a callback. `with averaged.applied(trainer):` evaluates, predicts or saves
    with the average; buffers, such as running statistics, are the model's.
    """

    def __init__(self, decay: float = 0.999) -> None:
        if not 0 <= decay < 1:
            raise UsageError(f"decay must be from 0 to below 1, got {decay}")
        self._decay = decay
        self.weights: dict[str, Tensor] = {}

    def on_train_begin(self, trainer: "Trainer") -> None:
        name = name_of(trainer.strategy)
        if name in _WITHOUT:
            raise UsageError(
                f"under strategy '{name}' no rank has the weights of all between two steps, to "
                "average them: take another strategy, such as 'central'"
            )
        if not self.weights:
            self.weights = {
                name: one.detach().clone() for name, one in trainer.model.named_parameters()
            }

    @torch.no_grad()
    def on_step_end(self, trainer: "Trainer", outcome: Outcome) -> None:
        for name, parameter in trainer.model.named_parameters():
            self.weights[name].lerp_(parameter, 1 - self._decay)

    @contextmanager
    def applied(self, trainer: "Trainer") -> Iterator[None]:
        """Collective. Meanwhile the model has the average, on every rank."""
        if not self.weights:
            raise UsageError("there is no average yet: give this to fit as a callback first")
        trainer.sync()
        trainer.worker.lend()  # where ranks share the memory of the weights, this is not in it
        before = {name: one.detach().clone() for name, one in trainer.model.named_parameters()}
        _write(trainer, self.weights)
        trainer.restored = True
        try:
            yield
        finally:
            _write(trainer, before)
            trainer.restored = False

    def state(self) -> State:
        tensors: dict[str, Part] = {
            f"{_AVERAGE}{name}": one.clone() for name, one in self.weights.items()
        }
        return State(tensors)

    def load(self, state: State) -> None:
        self.weights = {name: one.clone() for name, one in state.under(_AVERAGE)}


@torch.no_grad()
def _write(trainer: "Trainer", weights: dict[str, Tensor]) -> None:
    for name, parameter in trainer.model.named_parameters():
        parameter.copy_(weights[name])
