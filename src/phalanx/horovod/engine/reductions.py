"""How tensors of several ranks are combined, and scaled before and after."""

from enum import Enum

import torch
from torch import Tensor

from phalanx.comm.base import Op
from phalanx.errors import UsageError


class ReduceOp(Enum):
    """What becomes of the ranks' tensors."""

    AVERAGE = "Average"
    SUM = "Sum"
    ADASUM = "Adasum"
    MIN = "Min"
    MAX = "Max"
    PRODUCT = "Product"


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Adasum = ReduceOp.ADASUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT

_MPI: dict[str, Op] = {
    "Average": "sum",
    "Sum": "sum",
    "Min": "minimum",
    "Max": "maximum",
    "Product": "product",
}


def chosen_op(average: bool | None, op: ReduceOp | None) -> ReduceOp:
    """The op that the old argument `average` and the new one `op` ask for together."""
    if average is not None and op is not None:
        raise UsageError("average and op say the same thing: give op alone")
    if average is not None:
        return Average if average else Sum
    if op is not None and not isinstance(op, ReduceOp):
        names = ", ".join(f"hvd.{one.value}" for one in ReduceOp)
        raise UsageError(f"op must be one of {names}, not {op!r}")
    return op or Average


def check_op(op: ReduceOp, tensors: list[Tensor]) -> None:
    """Refuse what has no meaning for a dtype."""
    for tensor in tensors:
        if op is Average and tensor.dtype is torch.bool:
            raise UsageError(
                "the average of booleans is none: use op=hvd.Sum (any) or hvd.Min (all)"
            )
        if op in (Min, Max) and tensor.is_complex():
            raise UsageError(f"complex numbers have no order, and so no hvd.{op.value}")
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
    if op == Average.value and size > 1:
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.div_(size)
        else:
            tensor.floor_divide_(size)
    scale_(tensor, postscale)
