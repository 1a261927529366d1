"""The memory of a channel's buckets, and where in it each parameter's gradient is.

What is packed in a bucket is a parameter's `.grad` from then on. A bucket whose parameters are on a
GPU is there, too, and goes to the host's memory and back as a whole (`staging.py`).
"""

from collections.abc import Collection, Sequence
from typing import final

import torch
from torch import Tensor, nn

from phalanx.exchange.buckets import Bucket
from phalanx.exchange.views import Views, strides_of
from phalanx.horovod.engine.channel import Channel
from phalanx.horovod.optimizer.staging import Staging


@final
class Storage:
    """The gradients of some parameters, by number, in buckets that begin in their order."""

    def __init__(self, channel: Channel, parameters: Sequence[nn.Parameter]) -> None:
        """The parameters are in the channel's order."""
        self._parameters = parameters
        self._sums, self._buckets = channel.sums, channel.buckets
        self._flats = channel.sums.tensors
        self._stagings = [
            Staging(flat, [parameters[index] for index in bucket.indices])
            for bucket, flat in zip(self._buckets, self._flats, strict=True)
        ]
        self._views = [
            _views(bucket, one.flat, parameters, channels_last=channel.channels_last)
            for bucket, one in zip(self._buckets, self._stagings, strict=True)
        ]
        #: For each parameter its bucket, and its place in there.
        self._places = {
            index: (number, place)
            for number, bucket in enumerate(self._buckets)
            for place, index in enumerate(bucket.indices)
        }
        #: Parameters whose gradients are sparse, so that the optimizer may want no others.
        self._sparse = set(channel.sparse)
        self.restart()

    def restart(self) -> None:
        """Expect the gradients of the next step."""
        self._missing = [set(bucket.indices) for bucket in self._buckets]
        #: Those whose gradients are to be sparse afterwards.
        self._came_sparse: set[int] = set()

    def __contains__(self, index: int) -> bool:
        return index in self._places

    def pack(self, index: int) -> None:
        """Put a gradient in its bucket; none counts as zeros."""
        parameter, (number, place) = self._parameters[index], self._places[index]
        views, gradient = self._views[number], parameter.grad
        is_sparse = gradient is not None and gradient.is_sparse
        if is_sparse:
            self._sparse.add(index)
        if index in self._sparse and (gradient is None or is_sparse):
            self._came_sparse.add(index)
        views.put(place, gradient.to_dense() if gradient is not None and is_sparse else gradient)
        self._stagings[number].packed(views.tensors[place])
        if parameter.device == views.tensors[place].device:
            parameter.grad = views.tensors[place]
        elif gradient is None or is_sparse:
            parameter.grad = torch.zeros_like(parameter)
        self._missing[number].discard(index)

    def pack_rest(self) -> None:
        """Put in all gradients that are not there yet."""
        for missing in self._missing:
            for index in sorted(missing):
                self.pack(index)

    def start_full(self, *, predivide: float) -> bool:
        """Start the buckets that are full, in their order; whether MPI has work for a while."""
        works = False
        while self._sums.started < len(self._buckets):
            number = self._sums.started
            if self._missing[number]:
                break
            self._stagings[number].to_host()
            if predivide != 1.0:
                self._flats[number].div_(predivide)
            works = self._sums.start_next()
        return works

    def unpack(self) -> None:
        """Give every parameter the sum, in the form that its gradient had."""
        for staging, views in zip(self._stagings, self._views, strict=True):
            staging.from_host()
            views.restore()  # those that got other memory after they were packed
            for parameter, view in zip(views.parameters, views.tensors, strict=True):
                _give(parameter, view)
        for index in self._came_sparse:
            number, place = self._places[index]
            parameter, view = self._parameters[index], self._views[number].tensors[place]
            parameter.grad = view.to_sparse(1).to(parameter.device)


def _views(
    bucket: Bucket,
    flat: Tensor,
    parameters: Sequence[nn.Parameter],
    *,
    channels_last: Collection[int],
) -> Views:
    own = [parameters[index] for index in bucket.indices]
    orders = [index in channels_last for index in bucket.indices]
    strides = [strides_of(one, channels_last=last) for one, last in zip(own, orders, strict=True)]
    return Views(flat, own, starts=bucket.starts, strides=strides)


def _give(parameter: nn.Parameter, view: Tensor) -> None:
    gradient = parameter.grad
    if gradient is not view:
        if parameter.device == view.device:  # it was replaced after the backward pass
            parameter.grad = view
        elif gradient is not None:
            gradient.copy_(view)
    if not parameter.requires_grad and not view.any():
        parameter.grad = None  # frozen on all ranks: an optimizer must not touch it
