"""The memory of a bucket, and where in it each parameter's gradient is.

A parameter's `.grad` is a view of its bucket. Users may point such a tensor elsewhere without
anybody hearing of it (`grad.data = …`, which `model.half()` does, too), so what counts is not which
tensor a `.grad` is but where its memory is.
"""

from collections.abc import Collection, Sequence
from typing import final

import torch
from torch import Tensor, nn

from phalanx.horovod.engine.buckets import Bucket


@final
class Storage:
    """One flat tensor, in pieces that look like gradients."""

    def __init__(
        self,
        bucket: Bucket,
        flat: Tensor,
        parameters: Sequence[nn.Parameter],
        *,
        channels_last: Collection[int],
    ) -> None:
        """`channels_last`: parameters, by number, whose gradients all ranks keep in that order."""
        self.bucket, self.flat = bucket, flat
        #: Gradients that are not in here yet.
        self.missing = len(bucket.indices)
        self._views: dict[int, tuple[Tensor, int, tuple[int, ...]]] = {}
        self._starts: dict[int, int] = {}
        self._shapes: dict[int, torch.Size] = {}
        start = 0
        for index, size in zip(bucket.indices, bucket.sizes, strict=True):
            piece, like = flat[start : start + size], parameters[index]
            if index in channels_last:
                view = piece.as_strided(like.shape, _channels_last_strides(like))
            else:
                view = piece.view(like.shape)
            self._starts[index], self._shapes[index] = int(view.storage_offset()), like.shape
            self._views[index] = view, view.data_ptr(), view.stride()
            start += size

    def view(self, index: int) -> Tensor:
        """A parameter's piece: the same tensor every time, unless it was pointed elsewhere."""
        view, address, strides = self._views[index]
        if view.data_ptr() == address and view.stride() == strides:
            return view
        fresh = self.flat.as_strided(self._shapes[index], strides, self._starts[index])
        self._views[index] = fresh, address, strides
        return fresh


def is_channels_last(parameter: nn.Parameter) -> bool:
    """Whether the parameter's memory is in the order that convolutions are fast with."""
    return parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last)


def _channels_last_strides(parameter: nn.Parameter) -> tuple[int, ...]:
    if is_channels_last(parameter):
        return parameter.stride()
    return torch.empty_like(parameter, memory_format=torch.channels_last).stride()
