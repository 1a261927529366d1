"""What the ranks of a split layer exchange, as functions that autograd can go back through.

Each forward exchange has its counterpart backward. Where every rank has the whole of an activation,
each has the whole of its gradient too, to the last bit: a sum by MPI has the same bits everywhere.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phalanx.clock import phase
from phalanx.comm.base import Communicator


@dataclass(frozen=True)
class Exchanger:
    """The ranks that share layers, and the layout that all of them exchange images in."""

    comm: Communicator
    #: A rank's slice may be too thin to tell its layout, so that it is agreed on beforehand.
    channels_last: bool

    def dense(self, tensor: Tensor) -> Tensor:
        """The tensor in the agreed layout: itself, as a rule."""
        if tensor.dim() == 4 and self.channels_last:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor.contiguous()

    def add_up(self, tensor: Tensor) -> None:
        """Collective. A dense tensor becomes its sum over the ranks."""
        with phase("exchange"):
            self.comm.allreduce(self._memory(tensor))

    def gather(self, piece: Tensor, dim: int, sizes: tuple[int, ...]) -> Tensor:
        """Collective. The ranks' slices along a dimension, put together."""
        with phase("exchange"):
            mine = self._memory(self.dense(piece))
            images = mine.dim() == 4 and self.channels_last
            thickness = piece.numel() // piece.shape[dim]
            counts = [thickness * size for size in sizes]
            everyone = piece.new_empty(sum(counts))
            self.comm.allgather(mine.reshape(-1), everyone, counts=counts)
            pieces = []
            for size, values in zip(sizes, torch.split(everyone, counts), strict=True):
                shape = list(piece.shape)
                shape[dim] = size
                if images:
                    samples, channels, height, width = shape
                    values = values.view(samples, height, width, channels).permute(0, 3, 1, 2)
                pieces.append(values if images else values.view(shape))
            return torch.cat(pieces, dim)

    def _memory(self, tensor: Tensor) -> Tensor:
        """A dense tensor's memory in its order, as MPI wants it."""
        if tensor.dim() == 4 and self.channels_last:
            return tensor.detach().permute(0, 2, 3, 1)
        return tensor.detach()


class SumGradient(torch.autograd.Function):
    """Before a layer split by output: the same for all ranks; its gradient is summed over them."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, exchanger: Exchanger) -> Tensor:
        ctx.exchanger = exchanger
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # In place: the layer is the only reader of `inputs`, and has made this tensor just now.
        gradient: Tensor = ctx.exchanger.dense(gradients[0])
        ctx.exchanger.add_up(gradient)
        return gradient, None


class Sum(torch.autograd.Function):
    """After a layer split by input: a dense tensor becomes its sum over the ranks, in place."""

    @staticmethod
    def forward(ctx: Any, partial: Tensor, exchanger: Exchanger) -> Tensor:
        exchanger.add_up(partial)
        ctx.mark_dirty(partial)
        return partial

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


class Gather(torch.autograd.Function):
    """After a layer split by output that has no partner: all outputs; back, this rank's part."""

    @staticmethod
    def forward(
        ctx: Any, piece: Tensor, exchanger: Exchanger, dim: int, slices: tuple[slice, ...]
    ) -> Tensor:
        ctx.dim, ctx.mine = dim, slices[exchanger.comm.rank]
        return exchanger.gather(piece, dim, _sizes(slices))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return narrow(gradients[0], ctx.dim, ctx.mine), None, None, None


class Cut(torch.autograd.Function):
    """Before a layer split by input that has no partner: this rank's part; back, all parts."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, exchanger: Exchanger, dim: int, slices: tuple[slice, ...]
    ) -> Tensor:
        ctx.exchanger, ctx.dim, ctx.slices = exchanger, dim, slices
        return narrow(inputs, dim, slices[exchanger.comm.rank])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        exchanger: Exchanger = ctx.exchanger
        return exchanger.gather(gradients[0], ctx.dim, _sizes(ctx.slices)), None, None, None


def narrow(tensor: Tensor, dim: int, part: slice) -> Tensor:
    """A part of a tensor along one dimension, as a view."""
    return tensor.narrow(dim, part.start, part.stop - part.start)


def _sizes(slices: tuple[slice, ...]) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in slices)
