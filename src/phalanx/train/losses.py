"""The losses by name."""

import torch.nn.functional as F
from torch import Tensor

from phalanx.strategies.base import Loss, Reduction


def make_loss(name: str, reduction: Reduction = "mean") -> Loss:
    """The loss of this name over outputs `[n, classes]` and integer class targets `[n]`."""

    def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction=reduction)

    def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
        if not targets.is_floating_point():
            targets = F.one_hot(targets, outputs.shape[1]).to(outputs.dtype)
        return F.mse_loss(outputs, targets, reduction=reduction)

    functions = {"cross-entropy": cross_entropy, "squared-error": squared_error}
    return Loss(functions[name], reduction)
