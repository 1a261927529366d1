"""Numbers in 4 bits: whole numbers from -7 to 7, times a scale for each small block of them."""

from typing import final

import torch
from torch import Tensor

from phalanx.exchange.eight_bits import rounded, scale
from phalanx.exchange.formats import Format

#: Numbers that share a scale: fewer than in 8 bits, since what is left of the smaller ones is less.
_BLOCK = 64
_LARGEST = 7


@final
class Int4(Format):
    """An eighth of float32's bytes, and a scale in float32 for every 64 numbers."""

    def room(self, count: int) -> int:
        blocks = -(-count // _BLOCK)
        return 4 * blocks + -(-count // 8) * 4

    def pack(self, values: Tensor, packed: Tensor) -> None:
        scales, numbers = rounded(values, block=_BLOCK, largest=_LARGEST)
        blocks, count = len(scales), values.numel()
        packed[: 4 * blocks].view(torch.float32).copy_(scales)
        places = numbers.add_(_LARGEST).to(torch.uint8)  # from 0 to 14: no signs
        half = -(-count // 2)
        pairs = packed[4 * blocks : 4 * blocks + half]
        # The second half of the numbers shares its bytes with the first: both lie in one run.
        pairs.copy_(places[:half])
        pairs[: count - half].add_(places[half:], alpha=16)

    def unpack(self, packed: Tensor, values: Tensor) -> None:
        count = values.numel()
        blocks, half = -(-count // _BLOCK), -(-count // 2)
        pairs = packed[4 * blocks : 4 * blocks + half]
        values[:half] = pairs & 15
        values[half:] = pairs[: count - half] >> 4
        values.sub_(_LARGEST)
        scale(values, packed[: 4 * blocks].view(torch.float32), block=_BLOCK)
