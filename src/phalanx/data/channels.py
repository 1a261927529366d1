"""Images with the channels last, as Keras stores them, with the channels first, as torch does."""

from typing import final

import torch
from torch import Tensor

from phalanx.data.source import Source

# Grey, colours, and colours with how much they cover.
_CHANNELS = (1, 3, 4)
#: A shorter side is more likely a number of channels.
_SHORTEST_SIDE = 5


@final
class ChannelsFirst(Source):
    """The samples [height, width, channels] of another source, as [channels, height, width].

    Grey images [height, width] have one channel.
    """

    def __init__(self, source: Source) -> None:
        height, width, *channels = source.shape
        self.shape = (*(channels or [1]), height, width)
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def take(self, indices: Tensor) -> Tensor:
        return _moved(self._source.take(indices))


def with_channels_first(inputs: Tensor | Source) -> Tensor | Source:
    """The same samples, of which those that are images with the channels last have them first."""
    if isinstance(inputs, Tensor):
        moves = _has_channels_last(tuple(inputs.shape[1:]), inputs.dtype)
        return _moved(inputs) if moves else inputs
    dtype = inputs.take(torch.empty(0, dtype=torch.int64)).dtype
    return ChannelsFirst(inputs) if _has_channels_last(inputs.shape, dtype) else inputs


def as_stored(inputs: Tensor | Source, shape: tuple[int, ...]) -> Tensor | Source:
    """The same samples, of which images get the channels first if they are then of this shape.

    Where the shape is known, it does not matter what images and what else samples can be.
    """
    there = tuple(inputs.shape[1:]) if isinstance(inputs, Tensor) else inputs.shape
    if len(there) not in (2, 3) or there == shape:
        return inputs
    height, width, *channels = there
    if (*(channels or [1]), height, width) != shape:
        return inputs
    return _moved(inputs) if isinstance(inputs, Tensor) else ChannelsFirst(inputs)


def _has_channels_last(shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Whether samples are images that lack a channel or have the channels last.

    Only bytes are taken to be images where there are two dimensions: others can be series.
    """
    if min(shape[:2], default=0) < _SHORTEST_SIDE:
        return False
    return dtype == torch.uint8 if len(shape) == 2 else len(shape) == 3 and shape[2] in _CHANNELS


def _moved(images: Tensor) -> Tensor:
    if images.dim() == 3:
        return images.unsqueeze(1)
    return images.permute(0, 3, 1, 2).contiguous()
