"""Flat storage: a model's parameters as views of one tensor, their gradients as views of another.

A strategy then moves one buffer a dtype, never a list of tensors. Several of torch's calls replace
a view by a tensor of its own without a word: `zero_grad()`, `model.to()`,
`load_state_dict(assign=True)`. `collect` and `clear_gradients` notice, and put the views back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

#: Each parameter starts on a cache line, as it would in memory of its own: the kernels that torch
#: calls pick their path, and with it the last bits of a result, by alignment.
_ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class Block:
    """All parameters of one dtype: their values and gradients, each in one flat tensor."""

    parameters: tuple[nn.Parameter, ...]
    values: Tensor
    gradients: Tensor
    value_views: tuple[Tensor, ...]
    gradient_views: tuple[Tensor, ...]

    def attach(self) -> None:
        """Put back every view that has been replaced, keeping what the replacement holds."""
        triples = zip(self.parameters, self.value_views, self.gradient_views, strict=True)
        for parameter, value, gradient in triples:
            if parameter.data_ptr() != value.data_ptr():
                value.copy_(parameter.detach())
                parameter.data = value
            if parameter.grad is not gradient:
                if parameter.grad is not None:
                    gradient.copy_(parameter.grad)
                parameter.grad = gradient


class FlatParameters:
    """A model's trainable parameters, moved into flat storage. Tied ones are stored once."""

    def __init__(self, model: nn.Module) -> None:
        parameters = list(model.parameters())
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        self.frozen = [parameter for parameter in parameters if not parameter.requires_grad]
        dtypes = dict.fromkeys(parameter.dtype for parameter in trainable)
        self.blocks = [
            _flatten([parameter for parameter in trainable if parameter.dtype == dtype])
            for dtype in dtypes
        ]
        self._slots = [
            (module._parameters, name, parameter)
            for module in model.modules()
            for name, parameter in module._parameters.items()
            if parameter is not None
        ]

    def clear_gradients(self) -> None:
        """Set all gradients to zero, in place."""
        for block in self.collect():
            block.gradients.zero_()

    def collect(self) -> Iterable[Block]:
        """The blocks, with every value and gradient where it belongs."""
        for place, name, parameter in self._slots:
            if place[name] is not parameter:
                self._put_back(place, name, parameter)
        for block in self.blocks:
            block.attach()
        return self.blocks

    def _put_back(
        self, place: dict[str, nn.Parameter | None], name: str, parameter: nn.Parameter
    ) -> None:
        """Undo the exchange of a parameter object: optimizers still hold the one from before."""
        newcomer = place[name]
        if newcomer is not None:
            parameter.data = newcomer.data
            parameter.grad = newcomer.grad
        place[name] = parameter


@torch.no_grad()
def _flatten(parameters: list[nn.Parameter]) -> Block:
    dtype = parameters[0].dtype
    step = _ALIGNMENT_BYTES // dtype.itemsize
    starts = [0]
    for parameter in parameters:
        starts.append(starts[-1] + -(-parameter.numel() // step) * step)
    values, gradients = torch.zeros(2, starts[-1], dtype=dtype).unbind()

    def views(flat: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            flat[start : start + parameter.numel()].view(parameter.shape)
            for start, parameter in zip(starts, parameters, strict=False)
        )

    block = Block(tuple(parameters), values, gradients, views(values), views(gradients))
    block.attach()
    return block
