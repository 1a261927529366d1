"""Numbers in 16 bits: bfloat16 and float16."""

import math
from typing import final

import torch
from torch import Tensor

from phalanx.exchange.formats import Format

#: Where the largest value of a tile is brought to: float16 ends at 65504.
_TOP_EXPONENT = 15
#: 2 to this power and its inverse are ordinary numbers in float32.
_LARGEST_EXPONENT = 126


@final
class BFloat16(Format):
    """The first 16 bits of float32: all of its range, and 8 bits of precision.

    One conversion and nothing else. What it loses of a gradient, 0.4 % of an element at most and
    as often up as down, is far below what the choice of samples does to it, so that it is not kept.
    """

    feedback = False

    def room(self, count: int) -> int:
        return 2 * count

    def pack(self, values: Tensor, packed: Tensor) -> None:
        packed.view(torch.bfloat16).copy_(values)

    def unpack(self, packed: Tensor, values: Tensor) -> None:
        values.copy_(packed.view(torch.bfloat16))


@final
class Float16(Format):
    """11 bits of precision, and a range that needs help.

    A tile is multiplied by the power of two that brings its largest value just below 2^15, so
    nothing overflows, and only what is 2^39 times smaller than the largest is too small. The
    exponent travels with the tile.
    """

    def room(self, count: int) -> int:
        return 2 * count + 2

    def pack(self, values: Tensor, packed: Tensor) -> None:
        if not values.is_cpu:
            _pack_there(values, packed)
            return
        low, high = torch.aminmax(values)
        peak = max(-low.item(), high.item())
        exponent = _exponent(peak)
        halves = packed.view(torch.float16)
        packed.view(torch.int16)[-1] = exponent
        halves[:-1].copy_(values * math.ldexp(1.0, exponent))
        if math.isfinite(peak):
            values.sub_(halves[:-1].to(values.dtype).mul_(math.ldexp(1.0, -exponent)))
        else:
            values.zero_()

    def unpack(self, packed: Tensor, values: Tensor) -> None:
        values.copy_(packed.view(torch.float16)[:-1])
        if not values.is_cpu:
            values.mul_(torch.exp2(-packed.view(torch.int16)[-1].to(values.dtype)))
            return
        values.mul_(math.ldexp(1.0, -int(packed.view(torch.int16)[-1].item())))


def _pack_there(values: Tensor, packed: Tensor) -> None:
    """The same on a GPU, which nobody asks what the largest value is."""
    low, high = torch.aminmax(values)
    peak = torch.maximum(-low, high)
    finite = peak.isfinite()
    exponent = (_TOP_EXPONENT - torch.frexp(peak).exponent).clamp(max=_LARGEST_EXPONENT)
    exponent = torch.where(finite & (peak != 0), exponent, 0)
    scale = torch.exp2(exponent.to(values.dtype))
    halves = packed.view(torch.float16)
    packed.view(torch.int16)[-1].copy_(exponent)
    halves[:-1].copy_(values * scale)
    left = values - halves[:-1].to(values.dtype) / scale
    values.copy_(torch.where(finite, left, 0.0))


def _exponent(peak: float) -> int:
    if peak == 0 or not math.isfinite(peak):
        return 0
    return min(_TOP_EXPONENT - math.frexp(peak)[1], _LARGEST_EXPONENT)
