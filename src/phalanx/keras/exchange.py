"""Gradients combined over the ranks, on the host: what a training step calls once.

The gradients travel as those of the PyTorch interface do (`phalanx.horovod.exchange`): the ranks
agree once on what there is, and a rank that waits in vain says for whom.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from phalanx.horovod.collectives import grouped_allreduce
from phalanx.horovod.exchange import GradientExchange, Options
from phalanx.horovod.reductions import Adasum
from phalanx.keras.bridge import as_array, as_tensor

_numbers = count()


@dataclass(frozen=True)
class Passes:
    """How many gradients are added up on a rank before they travel."""

    number: int = 1
    #: Whether their average is wanted, and not their sum.
    averaged: bool = False


@final
class HostExchange:
    """Adds up a rank's gradients over some passes, then combines them over the ranks."""

    def __init__(self, options: Options, passes: Passes) -> None:
        self.options = options
        self.passes = passes
        self.title = f"DistributedOptimizer.keras.{next(_numbers)}"
        self._exchange: GradientExchange | None = None
        self._slots: list[nn.Parameter] = []
        self._zeros: list[Tensor] = []
        self._added = 0

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody to exchange with."""
        where = self.options.process_set
        return not where.included() or where.size() == 1

    def combine(self, gradients: Sequence[Any], step: Any = None) -> list[Tensor]:
        """Collective, at the last of some passes. All ranks' gradients combined; before: zeros.

        `step` counts the passes. The results are memory that the next call uses again.
        """
        self._take(gradients)
        self._added += 1
        if step is not None and (int(step) + 1) % self.passes.number:
            return self._zeros
        results = self._combined()
        for result in results:
            # Keras divides by the number of passes. After an overflow there were fewer of them.
            divisor = self._added if self.passes.averaged else 1
            if self.passes.number != divisor:
                result.mul_(self.passes.number / divisor)
        self._added = 0
        return results

    def _combined(self) -> list[Tensor]:
        gradients = [_gradient(slot) for slot in self._slots]
        if self.options.op is Adasum:
            combined = grouped_allreduce(gradients, name=self.title, op=Adasum)
            for own, result in zip(gradients, combined, strict=True):
                own.copy_(result)
            return gradients
        assert self._exchange is not None
        self._exchange.finish()
        return [_gradient(slot) for slot in self._slots]

    def _take(self, gradients: Sequence[Any]) -> None:
        if [slot.shape for slot in self._slots] != [tuple(one.shape) for one in gradients]:
            self._make_room(gradients)
        for slot, gradient in zip(self._slots, gradients, strict=True):
            _put(_gradient(slot), gradient, add=self._added > 0)

    def _make_room(self, gradients: Sequence[Any]) -> None:
        """Begin anew, with gradients of these shapes."""
        self._slots = []
        for gradient in gradients:
            dtype = getattr(torch, str(gradient.dtype).removeprefix("torch."))
            memory = torch.zeros(tuple(gradient.shape), dtype=dtype)
            # A parameter only for the sake of its gradient: one element stands for them all.
            one = torch.zeros(1, dtype=dtype).as_strided(memory.shape, [0] * memory.dim())
            slot = nn.Parameter(one)
            slot.grad = memory
            self._slots.append(slot)
        self._zeros = []
        if self.passes.number > 1:
            self._zeros = [torch.zeros_like(_gradient(slot)) for slot in self._slots]
        named = [(f"gradient.{number}", slot) for number, slot in enumerate(self._slots)]
        self._exchange = GradientExchange(self.title, named, self.options)
        self._added = 0


def _gradient(slot: nn.Parameter) -> Tensor:
    assert slot.grad is not None
    return slot.grad


def _put(memory: Tensor, gradient: Any, *, add: bool) -> None:
    """Copy or add a tensor or array; the array may be one that must not be written to."""
    if add:
        memory.add_(gradient if isinstance(gradient, Tensor) else as_tensor(gradient))
    elif isinstance(gradient, Tensor):
        memory.copy_(gradient)
    else:
        np.copyto(as_array(memory), gradient)
