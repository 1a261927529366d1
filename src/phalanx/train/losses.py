"""The losses by name, over outputs `[n, classes]` and the numbers of the right classes `[n]`.

Targets may also be floating-point numbers of the outputs' shape, for all but cross-entropy's kin.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.strategies.base import Loss, Objective, Reduction
from phalanx.train.torch_losses import of_torch
from phalanx.wording import a, unknown


def make_loss(name: str, reduction: Reduction = "mean") -> Loss:
    """The loss of this name, a mean or a sum over the samples."""
    if name not in _FUNCTIONS:
        raise unknown("loss", name, known=_FUNCTIONS)
    function = _FUNCTIONS[name]
    if name == "cross-entropy" and reduction == "mean":
        return of_torch(nn.CrossEntropyLoss())

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return function(outputs, targets, reduction)

    return Loss(loss, reduction)


def as_loss(loss: Loss | str | Callable[[Tensor, Tensor], Tensor]) -> Loss:
    """A loss by name, or a function, such as `nn.CrossEntropyLoss()`."""
    if isinstance(loss, str):
        return make_loss(loss)
    return loss if isinstance(loss, Loss) else of_torch(loss)


def as_objective(
    objective: Objective | Callable[[nn.Module, Any], Any] | None, loss: object
) -> Objective | None:
    """A function of the model and a batch, if there is one in place of a loss."""
    if objective is None:
        return None
    if loss is not None:
        raise UsageError("a training makes one thing small: give loss= or objective=")
    if not callable(objective) and not isinstance(objective, Objective):
        raise UsageError(f"objective= is a function of the model and a batch, not {a(objective)}")
    return objective if isinstance(objective, Objective) else Objective(objective, assumed=True)


def one_hot(outputs: Tensor, targets: Tensor) -> Tensor:
    """Targets as the outputs of a network that is always right."""
    if targets.is_floating_point():
        if targets.shape != outputs.shape:  # torch would compare every one with every other
            raise UsageError(
                f"targets of the shape {tuple(targets.shape)} do not go with outputs of "
                f"{tuple(outputs.shape)}: give both the same"
            )
        return targets
    return F.one_hot(targets, outputs.shape[1]).to(outputs.dtype)


def widened(outputs: Tensor) -> Tensor:
    """Outputs of 16 bits in 32, for what torch cannot compute of them on CPUs."""
    return outputs.to(torch.promote_types(outputs.dtype, torch.float32))


def _cross_entropy(outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction=reduction)


def _binary_cross_entropy(outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
    """Every output a yes or no of its own: their log losses added up for each sample."""
    wanted = one_hot(outputs, targets)
    total = F.binary_cross_entropy_with_logits(outputs, wanted, reduction="sum")
    return total / len(outputs) if reduction == "mean" else total


def _squared_error(outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
    return F.mse_loss(outputs, one_hot(outputs, targets), reduction=reduction)


def _absolute_error(outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
    return F.l1_loss(outputs, one_hot(outputs, targets), reduction=reduction)


def _hinge(outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
    return F.multi_margin_loss(widened(outputs), targets, reduction=reduction)


_FUNCTIONS: dict[str, Callable[[Tensor, Tensor, str], Tensor]] = {
    "cross-entropy": _cross_entropy,
    "binary-cross-entropy": _binary_cross_entropy,
    "squared-error": _squared_error,
    "absolute-error": _absolute_error,
    "hinge": _hinge,
}
