"""The state of an optimizer that has not stepped yet.

Horovod has it step once on gradients of zeros, which makes its state and leaves the gradients
there; scripts rely on both.
"""

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, Optimizer, SparseAdam


def is_missing(optimizer: Optimizer) -> bool:
    """Whether an optimizer has no state, but for one that steps only with a closure."""
    return not isinstance(optimizer, LBFGS) and not optimizer.state_dict()["state"]


def give_zeros(optimizer: Optimizer, model: nn.Module | None = None) -> None:
    """Give every parameter that is trained a gradient of zeros."""
    sparse = set() if model is None else {id(weight) for weight in _sparse_weights(model)}
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        if parameter.requires_grad:
            zeros = torch.zeros_like(parameter)
            is_sparse = isinstance(optimizer, SparseAdam) or id(parameter) in sparse
            parameter.grad = zeros.to_sparse() if is_sparse else zeros


def step_once(optimizer: Optimizer) -> None:
    """Step on this rank's own gradients; a DistributedOptimizer's other ranks need not."""
    distributed = getattr(optimizer, "_distributed", None)
    plain: Optimizer = optimizer if distributed is None else distributed.wrapped
    plain.step()


def _sparse_weights(model: nn.Module) -> list[Tensor]:
    kinds = nn.Embedding | nn.EmbeddingBag
    return [one.weight for one in model.modules() if isinstance(one, kinds) and one.sparse]
