"""The forward passes of split modules, which stand in for their own while a model is split."""

from dataclasses import dataclass
from typing import cast, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.strategies.tensor.collectives import Cut, Exchanger, Gather, Sum, SumGradient, narrow
from phalanx.strategies.tensor.plan import Split


@dataclass
class Link:
    """A pair at work: what its first layer makes must come to its second, and nowhere else."""

    first: str
    second: str
    #: The dimensions that outputs of the first must have; None for any number.
    dimensions: int | None = None
    #: Whether the pair is known to be one: outside of its container it is not.
    known: bool = True
    open: bool = False

    def begin(self, outputs: Tensor) -> None:
        """The first layer has made its outputs."""
        if not self.known or self.open:
            raise self._error("was called by itself")
        if self.dimensions not in (None, outputs.dim()):
            raise self._error(f"made outputs of {outputs.dim()} dimensions, not {self.dimensions}")
        self.open = True

    def end(self) -> None:
        """The second layer has got its inputs."""
        if not self.open:
            raise self._error("was left out")
        self.open = False

    def check_closed(self) -> None:
        """Raise if slices went anywhere but to the second layer."""
        if self.open:
            raise self._error(f"was called without '{self.second}'")

    def _error(self, what: str) -> UsageError:
        return UsageError(
            f"strategy 'tensor' split layers '{self.first}' and '{self.second}' as a pair, but in "
            f"this step '{self.first}' {what}: a model must use its layers in the same way in "
            "every step; for this one choose another strategy, such as 'central'"
        )


@final
class ByOutput:
    """A layer that makes this rank's part of the outputs; without a partner, all are gathered."""

    def __init__(
        self, layer: nn.Module, split: Split, *, exchanger: Exchanger, link: Link | None
    ) -> None:
        self._layer = layer
        self._exchanger = exchanger
        self._link = link
        self._dim = -3 if split.images else -1
        self._slices = tuple(split.slices(exchanger.comm.size))

    def __call__(self, input: Tensor) -> Tensor:  # noqa: A002
        shared = cast(Tensor, SumGradient.apply(input, self._exchanger))  # type: ignore[no-untyped-call]
        outputs: Tensor = type(self._layer).forward(self._layer, shared)
        if self._link is not None:
            self._link.begin(outputs)
            return outputs
        arguments = (self._exchanger, self._dim, self._slices)
        return cast(Tensor, Gather.apply(outputs, *arguments))  # type: ignore[no-untyped-call]


@final
class ByInput:
    """A layer that reads this rank's part of the inputs; its outputs are summed over the ranks."""

    def __init__(
        self,
        layer: nn.Linear | nn.Conv2d,
        split: Split,
        *,
        exchanger: Exchanger,
        link: Link | None,
    ) -> None:
        self._layer = layer
        self._exchanger = exchanger
        self._link = link
        self._dim = -3 if split.images else -1
        self._slices = tuple(split.slices(exchanger.comm.size))

    def __call__(self, input: Tensor) -> Tensor:  # noqa: A002
        layer, bias = self._layer, self._layer.bias
        if self._link is not None:
            self._link.end()
        else:
            arguments = (self._exchanger, self._dim, self._slices)
            input = cast(Tensor, Cut.apply(input, *arguments))  # type: ignore[no-untyped-call] # noqa: A001
        if isinstance(layer, nn.Conv2d):
            partial = layer._conv_forward(input, layer.weight, None)
        else:
            partial = F.linear(input, layer.weight)
        dense = self._exchanger.dense(partial)
        outputs = cast(Tensor, Sum.apply(dense, self._exchanger))  # type: ignore[no-untyped-call]
        if bias is None:
            return outputs
        # Once, after the sum: every rank has the whole bias.
        return outputs.add_(bias.view(-1, 1, 1) if isinstance(layer, nn.Conv2d) else bias)


@final
class DropoutOnSlice:
    """Draws what the whole activation would have drawn, and takes this rank's part of it."""

    def __init__(self, module: nn.Module, split: Split, *, exchanger: Exchanger) -> None:
        self._module = module
        self._dim = -3 if split.images else -1
        part = split.slices(exchanger.comm.size)[exchanger.comm.rank]
        self._start, self._length, self._width = part.start, part.stop - part.start, split.width
        self._channels_last = exchanger.channels_last

    def __call__(self, input: Tensor) -> Tensor:  # noqa: A002
        if not self._module.training:
            return input
        unit = input.shape[self._dim] // self._length  # pixels of a channel, when flattened
        shape = list(input.shape)
        shape[self._dim] = self._width * unit
        # In the layout of the whole, for numbers are drawn in the order of memory.
        noise = torch.ones(shape, dtype=input.dtype, device=input.device)
        if noise.dim() == 4 and self._channels_last:
            noise = noise.contiguous(memory_format=torch.channels_last)
        noise = type(self._module).forward(self._module, noise)
        start = self._start * unit
        part = narrow(noise, self._dim, slice(start, start + self._length * unit))
        return input * part.clone()  # a view would keep all of it until the backward pass


@final
class Guarded:
    """The forward pass of a container; the pairs in it are known to be pairs only inside."""

    def __init__(self, container: nn.Module, links: list[Link]) -> None:
        self._container = container
        self._links = links

    def __call__(self, input: Tensor) -> Tensor:  # noqa: A002
        for link in self._links:
            link.known = True
        try:
            outputs: Tensor = type(self._container).forward(self._container, input)
        finally:
            for link in self._links:
                link.known = False
        return outputs
