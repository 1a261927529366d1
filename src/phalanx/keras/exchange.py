"""Gradients combined over the ranks, on the host: what a training step calls once.

The gradients travel as those of the PyTorch interface do (see
`phalanx.horovod.optimizer.gradient_exchange`): the ranks agree once on what there is, and a rank
that waits in vain says for whom.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.horovod.api.collectives import grouped_allreduce
from phalanx.horovod.api.process_sets import ProcessSet
from phalanx.horovod.engine.reductions import Adasum, Average, ReduceOp, Sum, chosen_op
from phalanx.horovod.optimizer.gradient_exchange import GradientExchange
from phalanx.horovod.optimizer.naming import family_of
from phalanx.horovod.optimizer.options import Options
from phalanx.keras.bridge import as_array, as_tensor


def exchange_options(
    op: ReduceOp, predivide: float, *, compression: Any, process_set: ProcessSet
) -> Options:
    """How gradients are to be combined, checked."""
    op = chosen_op(None, op)
    if op not in (Average, Sum, Adasum):
        raise UsageError(f"gradients have op Average, Sum and Adasum, not {op.name.capitalize()}")
    if predivide != 1.0 and op != Average:
        raise UsageError("gradient_predivide_factor is for op=hvd.Average alone")
    if not predivide > 0:
        raise UsageError(f"gradient_predivide_factor must be above 0, not {predivide}")
    if not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
        raise UsageError(
            f"compression must be hvd.Compression.none, hvd.Compression.fp16 or a class of your "
            f"own with compress and decompress, not {compression!r}"
        )
    if not isinstance(process_set, ProcessSet):
        raise UsageError(
            f"process_set must be one that hvd.add_process_set has returned, not {process_set!r}"
        )
    return Options(
        op=op,
        predivide=float(predivide),
        compression=compression,
        groups=(),
        sparse_as_dense=True,
        process_set=process_set,
    )


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
        #: Room for gradients of the shapes seen so far: usually one.
        self._rooms: dict[Any, _Room] = {}

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody to exchange with."""
        where = self.options.process_set
        return not where.included() or where.size() == 1

    def combine(self, gradients: Sequence[Any], passes_done: Any = None) -> list[Tensor]:
        """Collective, at the last of some passes. All ranks' gradients combined; before: zeros.

        The results are memory that the next call uses again.
        """
        room = self._room(gradients)
        room.add(gradients)
        number = self.passes.number
        if passes_done is not None and (int(passes_done) + 1) % number:
            return room.zeros
        # Keras divides by the number of passes. After an overflow there were fewer of them.
        divisor = room.added if self.passes.averaged else 1
        results = room.combine()
        if number != divisor:
            for result in results:
                result.mul_(number / divisor)
        return results

    def _room(self, gradients: Sequence[Any]) -> "_Room":
        key = tuple((str(one.dtype), tuple(one.shape)) for one in gradients)
        if key not in self._rooms:
            self._rooms[key] = _Room(gradients, self.options)
        return self._rooms[key]


@final
class _Room:
    """The memory in which gradients of certain shapes are added up and combined."""

    def __init__(self, gradients: Sequence[Any], options: Options) -> None:
        self._options = options
        #: How many passes have been added up.
        self.added = 0
        self._slots = [_slot(gradient) for gradient in gradients]
        named = [(f"gradient.{number}", slot) for number, slot in enumerate(self._slots)]
        looks = (f"{name}: {slot.dtype} {tuple(slot.shape)}" for name, slot in named)
        self._exchange = GradientExchange(family_of(looks), named, options)

    @cached_property
    def zeros(self) -> list[Tensor]:
        """What there is before the last pass."""
        return [torch.zeros_like(_gradient(slot)) for slot in self._slots]

    def add(self, gradients: Sequence[Any]) -> None:
        """Take the gradients of one more pass."""
        for slot, gradient in zip(self._slots, gradients, strict=True):
            _put(_gradient(slot), gradient, add=self.added > 0)
        self.added += 1

    def combine(self) -> list[Tensor]:
        """Collective. What all ranks have added up; the next pass begins anew."""
        self.added = 0
        if self._options.op is Adasum:
            gradients = [_gradient(slot) for slot in self._slots]
            title = self._exchange.title(self._options.process_set.engine())
            options = self._options
            combined = grouped_allreduce(
                gradients, name=title, op=Adasum, compression=options.compression,
                process_set=options.process_set,
            )  # fmt: skip
            for own, result in zip(gradients, combined, strict=True):
                own.copy_(result)
        else:
            self._exchange.finish()
        return [_gradient(slot) for slot in self._slots]


def _slot(gradient: Any) -> nn.Parameter:
    """A parameter only for the sake of its gradient: one element stands for all."""
    dtype = getattr(torch, str(gradient.dtype).removeprefix("torch."))
    memory = torch.zeros(tuple(gradient.shape), dtype=dtype)
    one = torch.zeros(1, dtype=dtype).as_strided(memory.shape, [0] * memory.dim())
    slot = nn.Parameter(one)
    slot.grad = memory
    return slot


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
