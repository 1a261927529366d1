"""Tensors in types that gloo and NCCL know how to combine, and back.

Both lack some of the integers, and NCCL booleans and complex numbers as well. Where the same bits
will do, nothing is copied; else the numbers take a wider type, and what comes out is the same.
"""

import torch
from torch import Tensor

from phalanx.comm.base import Op

_WIDER = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}
_SIGN = -(2**63)
#: What a sum, product, minimum and maximum of booleans come to.
_LOGICAL: dict[Op, Op] = {
    "sum": "maximum",
    "product": "minimum",
    "minimum": "minimum",
    "maximum": "maximum",
}


def as_bytes(tensor: Tensor) -> Tensor:
    """A tensor's own memory, for moving it: any type will do then."""
    return tensor.view(-1).view(torch.uint8)


def can_combine(tensor: Tensor, op: Op) -> bool:
    """Whether there is a type to combine these numbers in, one by one."""
    return not (tensor.is_complex() and op == "product")


def encode(tensor: Tensor, op: Op) -> tuple[Tensor, Op]:
    """What to combine, and how, instead of a tensor; it may be the tensor's own memory."""
    flat = tensor.view(-1)
    if flat.dtype == torch.bool:
        return flat.view(torch.uint8), _LOGICAL[op]
    if flat.is_complex():
        return torch.view_as_real(flat).view(-1), op
    if flat.dtype == torch.uint64:
        bits = flat.view(torch.int64)
        return (bits ^ _SIGN if op in ("minimum", "maximum") else bits), op
    wider = _WIDER.get(flat.dtype)
    return (flat if wider is None else flat.to(wider)), op


def decode(combined: Tensor, op: Op, *, into: Tensor) -> None:
    """Write what was combined where it belongs, unless it is there already."""
    if combined.data_ptr() == into.data_ptr():
        return
    flat = into.view(-1)
    if flat.dtype == torch.bool:
        flat.view(torch.uint8).copy_(combined)
    elif flat.is_complex():
        torch.view_as_real(flat).view(-1).copy_(combined)
    elif flat.dtype == torch.uint64:
        ordered = op in ("minimum", "maximum")
        flat.view(torch.int64).copy_(combined ^ _SIGN if ordered else combined)
    else:
        flat.copy_(combined)
