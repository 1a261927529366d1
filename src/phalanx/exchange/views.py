"""Views: pieces of a flat tensor that look like parameters, and are their gradients or values.

Several of torch's calls take such a piece away from its parameter without a word. `zero_grad()` and
an assignment to `.grad` put another tensor in its place. `model.to()` and `grad.data = …` leave the
tensor and give it other memory. The first shows in which tensor it is, the second in its address.
"""

from collections.abc import Iterator, Sequence
from typing import final

import torch
from torch import Tensor, nn

Strides = tuple[int, ...]


@final
class Views:
    """One piece for each of some parameters: always the same tensors, each with its own version."""

    def __init__(
        self,
        flat: Tensor,
        parameters: Sequence[nn.Parameter],
        *,
        starts: Sequence[int],
        strides: Sequence[Strides] | None = None,
    ) -> None:
        """`starts`: where each piece begins in `flat`; `strides`: by default the parameters'."""
        self.parameters = tuple(parameters)
        self._flat = flat
        self._starts = tuple(starts)
        self._strides = tuple(strides or map(dense_strides, parameters))
        self._shapes = tuple(parameter.shape for parameter in parameters)
        self.tensors = tuple(self._piece(index) for index in range(len(self.parameters)))
        self._addresses = [view.data_ptr() for view in self.tensors]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    @torch.no_grad()
    def _piece(self, index: int) -> Tensor:
        # Not a view as autograd has them: all of those would share the version of the flat tensor.
        piece = torch.empty(0, dtype=self._flat.dtype, device=self._flat.device)
        offset = int(self._flat.storage_offset()) + self._starts[index]
        storage = self._flat.untyped_storage()
        return piece.set_(storage, offset, self._shapes[index], self._strides[index])

    def restore(self) -> None:
        """Give views that got other memory their own again, and forget what they held there."""
        if [view.data_ptr() for view in self.tensors] != self._addresses:
            for index, view in enumerate(self.tensors):
                if view.data_ptr() != self._addresses[index]:
                    view.data = self._piece(index)

    def attach(self) -> None:
        """Make the views the parameters' gradients; what was the gradient is forgotten."""
        self.restore()
        for parameter, view in zip(self.parameters, self.tensors, strict=True):
            if parameter.grad is not view:
                parameter.grad = view

    def collect(self) -> None:
        """Make the views the gradients again where another tensor is, and keep what it holds."""
        for parameter, view in zip(self.parameters, self.tensors, strict=True):
            if parameter.grad is not view and parameter.grad is not None:
                view.copy_(parameter.grad)
                parameter.grad = view

    def put(self, index: int, gradient: Tensor | None) -> None:
        """Have a view hold a gradient, which may be the view itself, though in other memory."""
        view = self.tensors[index]
        if view.data_ptr() != self._addresses[index] or view.stride() != self._strides[index]:
            if gradient is view:
                gradient = view.detach()
            view.data = self._piece(index)
        if gradient is None:
            view.zero_()
        elif gradient is not view:
            view.copy_(gradient)

    def replaced(self) -> list[int]:
        """The parameters, by number, whose values are not in their views."""
        addresses = enumerate(self._addresses)
        return [i for i, address in addresses if self.parameters[i].data_ptr() != address]

    def release_values(self) -> None:
        """Give every parameter whose values are in its view memory of its own, in the same order
        of elements."""
        for parameter, address in zip(self.parameters, self._addresses, strict=True):
            if parameter.data_ptr() == address:
                parameter.data = parameter.detach().clone()


def dense_strides(parameter: Tensor) -> Strides:
    """The parameter's own strides, channels-last for one, if they leave no gaps."""
    return torch.empty_like(parameter, memory_format=torch.preserve_format).stride()


def is_channels_last(parameter: Tensor) -> bool:
    """Whether the parameter's memory is in the order that convolutions are fast with."""
    return parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last)


def strides_of(parameter: Tensor, *, channels_last: bool) -> Strides:
    """The strides of a tensor of the parameter's shape: channels-last, or contiguous."""
    order = torch.channels_last if channels_last else torch.contiguous_format
    if channels_last and is_channels_last(parameter):
        return parameter.stride()
    return torch.empty_like(parameter, memory_format=order).stride()
