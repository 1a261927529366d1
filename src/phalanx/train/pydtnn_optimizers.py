"""PyDTNN's optimizers where they are not torch's.

`epsilon` is added inside of the root, Nadam's momentum has no schedule, and `decay` is taken off
the weights themselves, never put into a gradient. They step every element by itself, and so under
every strategy.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from phalanx.strategies.building_blocks.sliced_optimizer import STEPS_ELEMENTS

_Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]


class PyDTNNOptimizer(Optimizer):
    """Steps all parameters that have a gradient, one after the other."""

    #: What each takes, with PyDTNN's defaults.
    defaults_of: ClassVar[dict[str, Any]]

    def __init__(self, params: _Parameters, lr: float = 0.01, **options: Any) -> None:
        if unknown := sorted({*options} - {*self.defaults_of}):
            raise TypeError(f"{type(self).__name__} takes no {', '.join(unknown)}")
        defaults = {**self.defaults_of, **options}
        for name, value in (("learning rate", lr), *defaults.items()):
            if name != "betas" and value < 0:
                raise ValueError(f"the {name} must not be below 0, and is {value:g}")
        for value in defaults.get("betas", ()):
            if not 0 <= value < 1:
                raise ValueError(f"betas are from 0 to below 1, and one is {value:g}")
        super().__init__(params, {"lr": lr, **defaults})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step by the gradients as they are, or as `closure` makes them."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    way = self.way(parameter.grad, self.state[parameter], group)
                    if group["decay"]:
                        parameter.mul_(1 - group["lr"] * group["decay"])
                    parameter.add_(way, alpha=-group["lr"])
        return loss

    def way(self, gradient: Tensor, kept: dict[str, Any], group: dict[str, Any]) -> Tensor:
        """Which way a parameter goes, and how far at a learning rate of 1."""
        raise NotImplementedError


@final
class PyDTNNSGD(PyDTNNOptimizer):
    """With a momentum that the decay has no part in."""

    defaults_of: ClassVar = {"momentum": 0.9, "nesterov": False, "decay": 0.0}

    def way(self, gradient: Tensor, kept: dict[str, Any], group: dict[str, Any]) -> Tensor:
        momentum = group["momentum"]
        velocity = _kept(kept, "momentum_buffer", gradient).mul_(momentum).add_(gradient)
        return gradient.add(velocity, alpha=momentum) if group["nesterov"] else velocity


@final
class PyDTNNRMSProp(PyDTNNOptimizer):
    defaults_of: ClassVar = {"rho": 0.9, "epsilon": 1e-7, "decay": 0.0}

    def way(self, gradient: Tensor, kept: dict[str, Any], group: dict[str, Any]) -> Tensor:
        squares = _kept(kept, "square_avg", gradient).mul_(group["rho"])
        squares.addcmul_(gradient, gradient, value=1 - group["rho"])
        return gradient / squares.add(group["epsilon"]).sqrt_()


class _Moments(PyDTNNOptimizer):
    """By the means of gradients and of their squares, as if there had always been such ones."""

    defaults_of: ClassVar = {"betas": (0.99, 0.999), "epsilon": 1e-7, "decay": 0.0}

    def way(self, gradient: Tensor, kept: dict[str, Any], group: dict[str, Any]) -> Tensor:
        first, second = group["betas"]
        steps = kept.setdefault("step", torch.zeros((), dtype=torch.float32)).add_(1).item()
        mean = _kept(kept, "exp_avg", gradient).mul_(first).add_(gradient, alpha=1 - first)
        squares = _kept(kept, "exp_avg_sq", gradient).mul_(second)
        squares.addcmul_(gradient, gradient, value=1 - second)
        root = (squares / (1 - second**steps)).add_(group["epsilon"]).sqrt_()
        return self.ahead(mean, gradient, first).div(root).div_(1 - first**steps)

    def ahead(self, mean: Tensor, gradient: Tensor, first: float) -> Tensor:
        """The mean to go by."""
        raise NotImplementedError


@final
class PyDTNNAdam(_Moments):
    def ahead(self, mean: Tensor, gradient: Tensor, first: float) -> Tensor:
        return mean


@final
class PyDTNNNadam(_Moments):
    """Looks ahead by this step's gradient."""

    def ahead(self, mean: Tensor, gradient: Tensor, first: float) -> Tensor:
        return mean.add(gradient, alpha=1 - first)


for _kind in (PyDTNNSGD, PyDTNNRMSProp, PyDTNNAdam, PyDTNNNadam):
    setattr(_kind, STEPS_ELEMENTS, True)


def _kept(kept: dict[str, Any], name: str, like: Tensor) -> Tensor:
    """What is kept from step to step under a name, zeros at first."""
    if name not in kept:
        kept[name] = torch.zeros_like(like)
    found: Tensor = kept[name]
    return found
