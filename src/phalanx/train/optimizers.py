"""The optimizers, straight from torch.optim."""

import inspect
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from phalanx.errors import UsageError
from phalanx.settings.defaults import nominal_rate
from phalanx.settings.optimizers import OPTIMIZERS
from phalanx.settings.table import Settings

#: torch 2.13's fused SGD leaves weights of these where they are.
_HALVES = (torch.bfloat16, torch.float16)
#: Methods that torch keeps its compiler away from, which it loads for that when they are called.
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


def leave_compiler_out(kind: type[Optimizer]) -> None:
    """Have this class of optimizers not load torch's compiler, if nothing else has.

    torch imports it with the first optimizer, only to tell it where graphs end, which takes as long
    as importing torch itself. They compute the same. Where torch should do all this differently one
    day, the compiler is loaded again, and nothing else changes.
    """
    if "torch._dynamo" in sys.modules:
        return
    for name in _DISABLED:
        method = inspect.unwrap(getattr(Optimizer, name))
        # This is where torch keeps the method that its compiler has been told to leave alone.
        vars(method).setdefault("__dynamo_disable", method)
    whole: Any = kind.step
    # torch's wrapper turns gradients off, as this does, and then tells the compiler. The hooks
    # for profilers and users come back with the next optimizer of the class.
    kind.step = torch.no_grad()(inspect.unwrap(whole))  # type: ignore[method-assign]
