"""Numbers in 8 bits: whole numbers from -127 to 127, times a scale for each small block of them."""

from typing import final

import torch
from torch import Tensor

from phalanx.exchange.formats import Format

#: Numbers that share a scale: few, so that one large number spoils few others.
_BLOCK = 256
_LARGEST = 127


@final
class Int8(Format):
    """A quarter of float32's bytes, and a scale in float32 for every 256 numbers."""

    def room(self, count: int) -> int:
        blocks = -(-count // _BLOCK)
        return 4 * blocks + -(-count // 4) * 4

    def pack(self, values: Tensor, packed: Tensor) -> None:
        scales, numbers = rounded(values, block=_BLOCK, largest=_LARGEST)
        blocks, count = len(scales), values.numel()
        packed[: 4 * blocks].view(torch.float32).copy_(scales)
        packed[4 * blocks : 4 * blocks + count].view(torch.int8).copy_(numbers)

    def unpack(self, packed: Tensor, values: Tensor) -> None:
        count = values.numel()
        blocks = -(-count // _BLOCK)
        scales = packed[: 4 * blocks].view(torch.float32)
        values.copy_(packed[4 * blocks : 4 * blocks + count].view(torch.int8))
        scale(values, scales, block=_BLOCK)


def rounded(values: Tensor, *, block: int, largest: int) -> tuple[Tensor, Tensor]:
    """A scale for every `block` of numbers, and the numbers as whole ones of it from `-largest` to
    `largest`; `values` become what that loses. A scale of what is not finite is not, either."""
    count = values.numel()
    whole = _padded(values, block)
    scales = whole.abs().amax(1, keepdim=True).div_(largest).float()
    scales.clamp_(min=torch.finfo(torch.float32).tiny)
    finite = bool(scales.isfinite().all())
    numbers = whole / scales
    if not finite:
        numbers.nan_to_num_(0.0, 0.0, 0.0)
    numbers.round_()
    values.sub_((numbers * scales).view(-1)[:count])
    if not finite:
        values.nan_to_num_(0.0, 0.0, 0.0)
    return scales.view(-1), numbers.view(-1)[:count]


def scale(values: Tensor, scales: Tensor, *, block: int) -> None:
    """Multiply every `block` of numbers by its scale."""
    full = values.numel() // block
    values[: full * block].view(full, block).mul_(scales[:full, None])
    if full < len(scales):
        values[full * block :].mul_(scales[-1])


def _padded(values: Tensor, block: int) -> Tensor:
    """The numbers in rows of a block; zeros behind the last."""
    rest = -values.numel() % block
    return (torch.nn.functional.pad(values, (0, rest)) if rest else values).view(-1, block)
