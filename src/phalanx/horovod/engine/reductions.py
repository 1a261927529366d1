"""How tensors of several ranks are combined, and scaled before and after."""

from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

from phalanx.comm.base import Op
from phalanx.errors import UsageError


class ReduceOp(IntEnum):
    """What becomes of the ranks' tensors. The numbers are Horovod's, whose ops are plain ones."""

    AVERAGE = 0
    SUM = 1
    ADASUM = 2
    MIN = 3
    MAX = 4
    PRODUCT = 5

    @property
    def label(self) -> str:
        """Its name as `hvd` has it: Average."""
        return self.name.capitalize()


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Adasum = ReduceOp.ADASUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT

_NOT_DIVIDED_BY_TORCH = (torch.uint16, torch.uint32, torch.uint64)
_MPI: dict[str, Op] = {
    "Average": "sum",
    "Sum": "sum",
    "Min": "minimum",
    "Max": "maximum",
    "Product": "product",
}


def as_op(op: int) -> ReduceOp:
    """The op that was given, or whose number was."""
    try:
        return ReduceOp(op)
    except ValueError:
        names = ", ".join(f"hvd.{one.label}" for one in ReduceOp)
        raise UsageError(f"op must be one of {names}, not {op!r}") from None


def chosen_op(average: bool | None, op: int | None) -> ReduceOp:
    """The op that the old argument `average` and the new one `op` ask for together."""
    if average is not None and op is not None:
        raise UsageError("average and op say the same thing: give op alone")
    if average is not None:
        return Average if average else Sum
    return Average if op is None else as_op(op)


def check_op(op: ReduceOp, tensors: list[Tensor]) -> None:
    """Refuse what has no meaning for a dtype."""
    for tensor in tensors:
        if op is Average and tensor.dtype is torch.bool:
            raise UsageError(
                "the average of booleans is none: use op=hvd.Sum (any) or hvd.Min (all)"
            )
        if op in (Min, Max) and tensor.is_complex():
            raise UsageError(f"complex numbers have no order, and so no hvd.{op.label}")
        if op is Adasum and not tensor.is_floating_point():
            raise UsageError(f"Adasum is for floating point, not {tensor.dtype}: use op=hvd.Sum")


def mpi_op(op: str) -> Op:
    """MPI's operator for an op other than Adasum."""
    return _MPI[op]


def scale_(tensor: Tensor, factor: float) -> None:
    """Multiply in place; integers are rounded towards zero, as Horovod does."""
    if factor == 1.0:
        return
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.mul_(factor)
    else:
        tensor.copy_((tensor.double() * factor).to(tensor.dtype))


def finish_(tensor: Tensor, op: str, *, size: int, postscale: float) -> None:
    """What is left to do after the sum: divide for an average, and scale."""
    divisor = size if op == Average.label else 1
    if tensor.is_floating_point() or tensor.is_complex():
        if divisor > 1:
            tensor.div_(divisor)
        scale_(tensor, postscale)
    # Integers are rounded once, towards zero, as Horovod does: -75 over two ranks is -37.
    elif postscale != 1.0:
        tensor.copy_((tensor.double() * postscale / divisor).to(tensor.dtype))
    elif divisor > 1 and tensor.dtype in _NOT_DIVIDED_BY_TORCH:
        np.floor_divide(tensor.numpy(), divisor, out=tensor.numpy())
    elif divisor > 1:
        tensor.div_(divisor, rounding_mode="trunc")
