"""Losses of torch's, and of a user's own, as strategies take them: over parts of a batch.

Most of torch's are means over the samples. With class weights, or targets that are to be ignored,
cross-entropy divides by what the samples of the whole batch weigh, which no part of it knows.
"""

import copy
import inspect
from collections.abc import Callable
from typing import cast, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.strategies.base import Loss, Reduction
from phalanx.wording import a

LossFunction = Callable[[Tensor, Tensor], Tensor]

#: What torch leaves out of cross-entropy unless it is told otherwise.
IGNORED = -100

#: Functions of torch's whose mean is one over the samples, for targets that go with their outputs.
_MEANS: tuple[object, ...] = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)
_MEANS += (F.binary_cross_entropy, F.binary_cross_entropy_with_logits, F.multi_margin_loss)


def of_torch(loss: LossFunction) -> Loss:
    """What `nn.CrossEntropyLoss()`, `F.mse_loss` or any function of outputs and targets is.

    Of a function that is not torch's a mean over the samples is assumed, or what its `reduction`
    says.
    """
    _check_callable(loss)
    if loss is F.cross_entropy or loss is F.nll_loss:
        loss = nn.CrossEntropyLoss() if loss is F.cross_entropy else nn.NLLLoss()
    reduction = _reduction(loss)
    if isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss) and _is_of_torch(loss):
        return _weighted(loss) if reduction == "mean" else Loss(loss, "sum")
    return Loss(loss, reduction, assumed=not (_is_of_torch(loss) or loss in _MEANS))


def weight_of_classes(
    targets: Tensor, weights: Tensor | None, ignored: int = IGNORED
) -> float | Tensor:
    """What cross-entropy divides a sum over these targets by; a tensor on a GPU, for nobody to wait
    for."""
    if targets.is_floating_point():  # a share for each class
        if targets.dim() < 2:
            raise UsageError(
                "cross-entropy takes the numbers of classes, and these targets are "
                f"{str(targets.dtype).removeprefix('torch.')}: give targets.long(), or to predict "
                "numbers another loss, such as nn.MSELoss()"
            )
        return targets.numel() / targets.shape[1]
    if targets.is_cuda:
        counted = targets != ignored
        if weights is None:
            return counted.sum(dtype=torch.float64)
        each = weights.to(targets.device)[targets.where(counted, 0)]
        return each.where(counted, 0).sum(dtype=torch.float64)
    if weights is None:
        # By NumPy, which has a few numbers counted in a third of the time: this is once a step.
        return int(np.count_nonzero(targets.numpy() != ignored))
    counted = targets != ignored
    return float(weights.to(targets.device)[targets[counted]].sum(dtype=torch.float64))


def _weighted(loss: nn.CrossEntropyLoss | nn.NLLLoss) -> Loss:
    total = copy.copy(loss)  # with the same weights, wherever they are moved
    total.reduction = "sum"

    def weigh(targets: Tensor) -> float | Tensor:
        return weight_of_classes(targets, loss.weight, loss.ignore_index)

    # Its forward pass alone: what torch wraps around a module's call takes longer than the loss.
    return Loss(total.forward, weigh=weigh)


def _reduction(loss: LossFunction) -> Reduction:
    named = getattr(loss, "reduction", "mean")
    for known in get_args(Reduction):
        if named == known or (named, known) == ("batchmean", "mean"):
            return cast(Reduction, known)
    raise UsageError(f"a loss is a mean or a sum over the samples, not '{named}'")


def _is_of_torch(loss: LossFunction) -> bool:
    return type(loss).__module__ == nn.CrossEntropyLoss.__module__


def _check_callable(loss: LossFunction) -> None:
    if isinstance(loss, type):
        raise UsageError(
            f"loss={loss.__name__} is a class: make a loss of it, loss={loss.__name__}()"
        )
    if not callable(loss):
        raise UsageError(
            "a loss is a name, such as 'cross-entropy', or a function of outputs and targets, "
            f"such as nn.MSELoss(), not {a(loss)}"
        )
    if isinstance(loss, nn.Module) and _is_of_torch(loss):
        parameters = inspect.signature(loss.forward).parameters.values()
        needed = [one.name for one in parameters if one.default is one.empty]
        if len(needed) > 2:
            raise UsageError(
                f"{type(loss).__name__} is a loss of {', '.join(needed)}, and a Trainer's is one "
                "of outputs and targets: give a function of these two that calls it"
            )
