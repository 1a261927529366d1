"""Gradients that travel by themselves: sparse ones, and what a user's own compressor makes."""

from typing import Any, final

import torch
from torch import Tensor, nn

from phalanx.horovod.api.operations import begin, request, sparse_allreduce_async, synchronize
from phalanx.horovod.engine.reductions import Average
from phalanx.horovod.optimizer.options import Options


@final
class SeparateExchange:
    """The exchange of one parameter's gradient, by its name."""

    def __init__(self, name: str, parameter: nn.Parameter, options: Options) -> None:
        """Begin it."""
        self._parameter, self._options = parameter, options
        self._handle: Any
        self._context: Any = None
        gradient = parameter.grad
        if not options.is_custom:
            sparse = _as_sparse(parameter, gradient)
            self._handle = sparse_allreduce_async(sparse, name, options.op, options.process_set)
            return
        if gradient is None:
            gradient = torch.zeros_like(parameter)
        dense = gradient.to_dense() if gradient.is_sparse else gradient
        small, self._context = options.compression.compress(dense)
        asked = request(
            "allreduce",
            [small],
            name,
            process_set=options.process_set,
            op=options.op.label,
            prescale=1.0 / options.predivide,
            postscale=options.predivide if options.op is Average else 1.0,
        )
        self._handle = begin(asked)

    def finish(self) -> None:
        """Collective. Give the parameter what came of it."""
        result = synchronize(self._handle)
        if self._options.is_custom:
            result = self._options.compression.decompress(result, self._context)
        self._parameter.grad = result


def _as_sparse(parameter: nn.Parameter, gradient: Tensor | None) -> Tensor:
    """A gradient of a parameter whose gradients are sparse on some rank; none is empty."""
    if gradient is None:
        empty = parameter.detach().new_empty((0, *parameter.shape[1:]))
        where = torch.empty((1, 0), dtype=torch.int64)
        return torch.sparse_coo_tensor(where, empty, parameter.shape, check_invariants=False)
    return gradient if gradient.is_sparse else gradient.to_sparse(1)
