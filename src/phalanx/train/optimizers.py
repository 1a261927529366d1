"""The optimizers, straight from torch.optim."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from phalanx.errors import UsageError
from phalanx.settings.optimizers import OPTIMIZERS
from phalanx.settings.table import Settings
from phalanx.train.without_compiler import leave_compiler_out

#: torch 2.13's fused SGD leaves weights of these where they are.
_HALVES = (torch.bfloat16, torch.float16)


def make_optimizer(
    settings: Settings, parameters: Iterable[nn.Parameter], *, workers: int = 1
) -> Optimizer:
    """The optimizer that the settings name, over these parameters, fused where torch can.

    The learning rate is scaled to so many workers, if the settings ask for it.
    """
    entry = OPTIMIZERS[settings.optimizer]
    kept = list(parameters)
    rate = entry.learning_rate if settings.learning_rate is None else settings.learning_rate
    options: dict[str, Any] = dict(settings.optimizer_choices)
    if entry.fused and not any(parameter.dtype in _HALVES for parameter in kept):
        options["fused"] = True
    kind: type[Optimizer] = getattr(torch.optim, entry.kind)
    if not settings.compile:
        leave_compiler_out(kind)
    make: Callable[..., Optimizer] = kind
    try:
        return make(kept, lr=rate * _scale(settings.scale_learning_rate, workers), **options)
    except ValueError as error:  # torch knows best which values an optimizer takes
        raise UsageError(f"--optimizer {settings.optimizer}: {error}") from error


def _scale(how: str, workers: int) -> float:
    return {"no": 1.0, "linear": float(workers), "sqrt": math.sqrt(workers)}[how]
