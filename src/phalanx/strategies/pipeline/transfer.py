"""Activations and their gradients on their way between two stages of a pipeline.

A tensor goes as it lies in memory, without a copy on either side. Buffers to receive in are made
once and used in turn; the next message is expected before the current one is worked on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, final

import torch
from torch import Tensor

from phalanx.comm.base import Communicator, Request


@dataclass(frozen=True)
class Form:
    """What the tensors at a border have in common, whatever the number of samples."""

    #: The shape of one sample.
    shape: tuple[int, ...]
    dtype: torch.dtype
    #: The dimensions, the batch among them, from the farthest apart in memory to the nearest.
    order: tuple[int, ...]

    @staticmethod
    def of(tensor: Tensor) -> "Form":
        """The form of a tensor whose first dimension is the batch."""
        strides = tensor.stride()
        order = sorted(range(tensor.dim()), key=lambda dimension: -strides[dimension])
        return Form(tuple(tensor.shape[1:]), tensor.dtype, tuple(order))

    def elements(self, count: int) -> int:
        """The elements of so many samples."""
        return count * prod(self.shape)

    def bytes(self, count: int) -> int:
        """The bytes of so many samples."""
        return self.elements(count) * self.dtype.itemsize

    def flat(self, tensor: Tensor) -> Tensor:
        """The tensor as a row of elements in memory's order; a copy only if it has gaps."""
        return tensor.detach().to(self.dtype).permute(self.order).contiguous().view(-1)

    def shaped(self, flat: Tensor, count: int) -> Tensor:
        """The tensor that such a row of elements is; its own for autograd, not a view."""
        sizes = (count, *self.shape)
        strides = [0] * len(sizes)
        step = 1
        for dimension in reversed(self.order):
            strides[dimension] = step
            step *= sizes[dimension]
        tensor = flat.new_empty(0)
        return tensor.set_(flat.untyped_storage(), flat.storage_offset(), sizes, tuple(strides))


@final
class Incoming:
    """Messages from a neighbour, one a micro-batch, each expected before it is needed.

    A message may be used until `slots` - 1 further ones have been taken.
    """

    def __init__(
        self, comm: Communicator, source: int, *, slots: int, tag: int, device: torch.device
    ) -> None:
        self._comm = comm
        self._source = source
        self._device = device
        self._tag = tag
        self._buffers: list[Tensor | None] = [None] * slots
        self._expected: dict[int, tuple[Tensor, Request]] = {}
        self._sizes: Sequence[int] = ()

    def begin(self, sizes: Sequence[int], dtype: torch.dtype) -> None:
        """Be ready for a step's messages, of so many elements each."""
        self._sizes = sizes
        self._dtype = dtype
        self._expect(0)

    def take(self, micro_batch: int) -> Tensor:
        """Wait for a message; they are taken in their order."""
        self._expect(micro_batch + 1)
        buffer, request = self._expected.pop(micro_batch)
        request.wait()
        return buffer

    def _expect(self, micro_batch: int) -> None:
        if micro_batch >= len(self._sizes):
            return
        size = self._sizes[micro_batch]
        slot = micro_batch % len(self._buffers)
        room = self._buffers[slot]
        if room is None or len(room) < size:
            room = self._buffers[slot] = torch.empty(size, dtype=self._dtype, device=self._device)
        buffer = room[:size]
        tag = tag_of(micro_batch, self._tag)
        self._expected[micro_batch] = buffer, self._comm.ireceive(buffer, self._source, tag=tag)


@final
class Outgoing:
    """Messages to a neighbour; each keeps its tensor until it is sent."""

    def __init__(self, comm: Communicator, to: int, *, tag: int) -> None:
        self._comm = comm
        self._to = to
        self._tag = tag
        self._pending: dict[int, Request] = {}

    def send(self, micro_batch: int, message: Tensor) -> None:
        """Begin to send a message, which must not be changed until it is settled."""
        tag = tag_of(micro_batch, self._tag)
        self._pending[micro_batch] = self._comm.isend(message, self._to, tag=tag)

    def settle(self, last: int) -> None:
        """Wait until all messages up to that of this micro-batch are sent."""
        for micro_batch in [index for index in self._pending if index <= last]:
            self._pending.pop(micro_batch).wait()


#: The kinds of message about a micro-batch.
ACTIVATION, RANDOM_STATE, GRADIENT = range(3)


def tag_of(micro_batch: int, kind: int) -> int:
    """The tag of a message, one for each micro-batch and kind."""
    return 3 * micro_batch + kind


@final
class Arrival:
    """A received activation as the start of this stage's graph, and what comes back to it.

    Autograd refuses a layer that works in place on a leaf, or on a view of one. An activation is
    therefore not a leaf here but the result of an operation, which the gradient ends in.
    """

    def __init__(self, received: Tensor) -> None:
        self._received = received
        self.gradient: Tensor | None = None
        #: What `torch.autograd.grad` may be asked about, to have it compute the gradient.
        self.anchor = torch.empty(0, requires_grad=True, device=received.device)

    def tensor(self) -> Tensor:
        """What to call the first layer with. It may change the received tensor in place."""
        start: Tensor = _Start.apply(self.anchor, self)  # type: ignore[no-untyped-call]
        return start


class _Start(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _anchor: Tensor, arrival: Arrival) -> Tensor:
        ctx.arrival = arrival
        return arrival._received

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None]:
        ctx.arrival.gradient = gradient
        return None, None
