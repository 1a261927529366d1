"""Optimizers that do not load torch's compiler.

torch imports it with the first optimizer, only to tell it where graphs end. That takes as long as
importing torch itself, on every rank, and a training that compiles nothing has no use for it.
"""

import inspect
import sys
from typing import Any

import torch
from torch.optim import Optimizer

#: Methods that torch keeps its compiler away from, which it loads for that when they are called.
_DISABLED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def leave_compiler_out(kind: type[Optimizer]) -> None:
    """Have this class of optimizers not load the compiler, if nothing else has.

    They compute the same. Where torch should do all this differently one day, the compiler is
    loaded again, and nothing else changes.
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
