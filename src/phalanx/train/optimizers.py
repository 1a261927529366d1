"""The optimizers by name: torch's own, and PyDTNN's."""

import inspect
import math
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from phalanx.errors import UsageError
from phalanx.settings.defaults import nominal_rate
from phalanx.settings.optimizers import OPTIMIZERS
from phalanx.settings.table import Settings
from phalanx.strategies.building_blocks.sliced_optimizer import (
    SAME_AS,
    STEPS_ELEMENTS,
    steps_elements,
)
from phalanx.train import pydtnn_optimizers

#: torch 2.13's fused SGD leaves weights of these where they are.
_HALVES = (torch.bfloat16, torch.float16)
#: Methods that torch keeps its compiler away from, and loads it for that when they are called.
_DISABLED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def make_optimizer(
    settings: Settings, parameters: Iterable[nn.Parameter], *, workers: int = 1
) -> Optimizer:
    """The optimizer that the settings name, over these parameters, fused where torch can.

    The learning rate is scaled to so many workers, if the settings ask for it.
    """
    entry = OPTIMIZERS[settings.optimizer]
    kept = list(parameters)
    rate = nominal_rate(settings)
    options: dict[str, Any] = dict(settings.optimizer_choices)
    if entry.fused and not any(parameter.dtype in _HALVES for parameter in kept):
        options["fused"] = True
    kind: type[Optimizer] = getattr(
        pydtnn_optimizers if entry.of_pydtnn else torch.optim, entry.kind
    )
    make: Callable[..., Optimizer] = kind if settings.compile else without_compiler(kind)  # type: ignore[arg-type]
    try:
        return make(kept, lr=rate * _scale(settings.scale_learning_rate, workers), **options)
    except ValueError as error:  # torch knows best which values an optimizer takes
        raise UsageError(f"--optimizer {settings.optimizer}: {error}") from error


def _scale(how: str, workers: int) -> float:
    return {"no": 1.0, "linear": float(workers), "sqrt": math.sqrt(workers)}[how]


@cache
def without_compiler(kind: type[Optimizer]) -> type[Optimizer]:
    """This class of optimizers, or one like it that does not load torch's compiler.

    torch imports its compiler with the first optimizer, only to tell it where graphs end, which
    takes as long as importing torch itself. Both compute the same; torch's own stays as it is.
    """
    if "torch._dynamo" in sys.modules:
        return kind
    # What torch keeps its compiler away from, without the wrapper that loads it for that.
    own = {name: inspect.unwrap(getattr(Optimizer, name)) for name in _DISABLED}
    # torch's wrapper of a step turns gradients off, as this does, and then tells the compiler.
    step = torch.no_grad()(inspect.unwrap(kind.step))
    named = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    said = {SAME_AS: kind, STEPS_ELEMENTS: steps_elements(kind)}
    return type(kind.__name__, (kind,), {**named, **own, "step": step, **said})
