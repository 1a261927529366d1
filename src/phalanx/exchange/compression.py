"""Compression: gradients travel in 16 bits, and what rounding loses goes into the next step.

Every rank owns a part of the tensor. Each sends the others their parts in 16 bits, adds up its own
part in the gradient's precision, and sends the sum to all in 16 bits: as many messages as a ring
needs, half the bytes, and just two roundings, however many ranks there are. Both remember what
they rounded away and add it the next time (error feedback), so that over many steps what was
exchanged is never further from the exact sum than the roundings of a single step.

A part is multiplied by the power of two that brings its largest value just below 2^15, so nothing
overflows float16, whose largest number is 65504, and only what is 2^39 times smaller than the
largest is too small for it. The exponent travels with the part. A gradient that is infinite or not
a number arrives as such, as it does without compression.
"""

import math
from typing import Literal, final

import torch
from torch import Tensor

from phalanx.comm.base import Call, Communicator, Request
from phalanx.exchange.sums import Sum

Compression = Literal["fp16", "bf16"]
_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
#: What is worth compressing: the rest has no more than 16 bits, or no order.
COMPRESSIBLE = (torch.float32, torch.float64)
#: Where a part's largest value is brought to.
_TOP_EXPONENT = 15
#: 2 to this power and its inverse are ordinary numbers in float32.
_LARGEST_EXPONENT = 126


@final
class Halves:
    """Rows of numbers in 16 bits, each with the exponent that it was scaled by."""

    def __init__(self, rows: int, length: int, dtype: torch.dtype) -> None:
        self.packed = torch.zeros(rows, length + 1, dtype=dtype)
        self._values = self.packed[:, :length]
        self._exponents = self.packed.view(torch.int16)[:, length]

    def encode(self, values: Tensor, scratch: Tensor) -> None:
        """Round `values`; they become what was lost by that."""
        peaks = [_peak(row) for row in values]
        exponents = [_exponent(peak) for peak in peaks]
        self._exponents.copy_(torch.tensor(exponents, dtype=torch.int16))
        torch.mul(values, _powers(exponents, values.dtype), out=scratch)
        self._values.copy_(scratch)
        self.decode(scratch)
        values.sub_(scratch)
        for row, peak in enumerate(peaks):
            if not math.isfinite(peak):
                values[row].zero_()  # it would spoil all steps to come

    def decode(self, values: Tensor) -> None:
        """The numbers, into `values`."""
        values.copy_(self._values)
        exponents = self._exponents.tolist()
        values.mul_(_powers([-exponent for exponent in exponents], values.dtype))


def _peak(values: Tensor) -> float:
    low, high = torch.aminmax(values)  # several times faster than the norm
    return max(-low.item(), high.item())


def _exponent(peak: float) -> int:
    if peak == 0 or not math.isfinite(peak):
        return 0
    return min(_TOP_EXPONENT - math.frexp(peak)[1], _LARGEST_EXPONENT)


def _powers(exponents: list[int], dtype: torch.dtype) -> Tensor:
    return torch.tensor([[math.ldexp(1.0, exponent)] for exponent in exponents], dtype=dtype)


@final
class CompressedSum(Sum):
    """A sum in 16 bits: MPI_Ialltoall, an addition, MPI_Iallgather."""

    needs_progress = True

    def __init__(self, comm: Communicator, tensor: Tensor, compression: Compression) -> None:
        self.tensor = tensor
        dtype = _DTYPES[compression]
        part = -(-tensor.numel() // comm.size)
        #: What this rank has to send: the gradient, and what earlier roundings lost.
        self._mine = torch.zeros(comm.size, part, dtype=tensor.dtype)
        #: The same for the sum of the part that this rank owns.
        self._sum = torch.zeros(1, part, dtype=tensor.dtype)
        self._scratch = torch.zeros_like(self._mine)
        self._outgoing = Halves(comm.size, part, dtype)
        self._incoming = Halves(comm.size, part, dtype)
        self._owned = Halves(1, part, dtype)
        self._scatter = comm.prepare_start(
            Call("all_to_all", self._outgoing.packed, self._incoming.packed)
        )
        self._gather = comm.prepare_start(
            Call("allgather", self._owned.packed, self._outgoing.packed)
        )
        self._request: Request

    def residuals_in_place(self, rank: int) -> tuple[Tensor, Tensor]:
        """What roundings have lost so far, where it belongs in the tensor: of what this rank sent,
        and of the sum of the part that it owns."""
        sent = self._mine.view(-1)[: self.tensor.numel()]
        summed = torch.zeros_like(self._mine)
        summed[rank] = self._sum[0]
        return sent, summed.view(-1)[: self.tensor.numel()]

    def take_residuals(self, sent: Tensor, summed: Tensor, *, rank: int) -> None:
        """Go on as if these had been lost."""
        self._mine.zero_().view(-1)[: self.tensor.numel()].copy_(sent)
        placed = torch.zeros_like(self._mine)
        placed.view(-1)[: self.tensor.numel()].copy_(summed)
        self._sum.copy_(placed[rank])

    def start(self) -> None:
        self._mine.view(-1)[: self.tensor.numel()].add_(self.tensor)
        self._outgoing.encode(self._mine, self._scratch)
        self._request = self._scatter()

    def test(self) -> bool:
        return self._request.test()

    def turn(self) -> None:
        self._request.wait()
        self._incoming.decode(self._scratch)
        self._sum.add_(self._scratch.sum(0, keepdim=True))
        self._owned.encode(self._sum, self._scratch[:1])
        self._request = self._gather()

    def finish(self) -> None:
        self._request.wait()
        self._outgoing.decode(self._scratch)
        self.tensor.copy_(self._scratch.view(-1)[: self.tensor.numel()])
