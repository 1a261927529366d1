"""Buffers, datatypes and operators as mpi4py takes them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from mpi4py import MPI

from phalanx.comm.base import Call, Op
from phalanx.comm.buffers import Side, dtype_name, label
from phalanx.errors import UsageError

#: The most that MPI can count: MPI 4 has 64 bits for it.
LARGEST = 2**31 - 1 if MPI.VERSION < 4 else 2**63 - 1

#: mpi4py knows bfloat16 no better than as bytes, and MPI 3 has no half precision at all: both
#: travel as 16-bit integers and are combined by operators of our own.
_HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_DATATYPES = {
    "bool": MPI.C_BOOL,
    "int8": MPI.INT8_T,
    "int16": MPI.INT16_T,
    "int32": MPI.INT32_T,
    "int64": MPI.INT64_T,
    "uint8": MPI.UINT8_T,
    "uint16": MPI.UINT16_T,
    "uint32": MPI.UINT32_T,
    "uint64": MPI.UINT64_T,
    "float16": MPI.INT16_T,
    "bfloat16": MPI.INT16_T,
    "float32": MPI.FLOAT,
    "float64": MPI.DOUBLE,
    "complex64": MPI.C_FLOAT_COMPLEX,
    "complex128": MPI.C_DOUBLE_COMPLEX,
}
_OPERATORS = {"sum": MPI.SUM, "product": MPI.PROD, "minimum": MPI.MIN, "maximum": MPI.MAX}
#: What torch's sum, product, minimum and maximum of booleans come to.
_LOGICAL = {"sum": MPI.LOR, "product": MPI.LAND, "minimum": MPI.LAND, "maximum": MPI.LOR}
_TORCH: dict[Op, Callable[..., torch.Tensor]] = {
    "sum": torch.add,
    "product": torch.mul,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
}


def whole(side: Side | None) -> list[Any] | None:
    """mpi4py's description of a buffer, or of an empty place."""
    return None if side is None else described(side.tensor)


def described(tensor: torch.Tensor) -> list[Any]:
    """The same of a tensor's memory: elements, or if they are too many one thing made of them."""
    if tensor.numel() <= LARGEST:
        return [memory_of(tensor), datatype_of(tensor)]
    return [memory_of(tensor), 1, several(dtype_name(tensor), 0, tensor.numel())]


def memory_of(tensor: torch.Tensor) -> MPI.buffer:
    """Where a tensor is."""
    if not tensor.is_cpu:
        raise UsageError(
            f"{label(tensor)} on {tensor.device}: MPI takes CPU memory; "
            "`phalanx.comm.device.on_device` makes a communicator for other devices"
        )
    return MPI.buffer.fromaddress(tensor.data_ptr(), tensor.nbytes)


def datatype_of(tensor: torch.Tensor) -> MPI.Datatype:
    """What MPI calls a tensor's elements."""
    return _DATATYPES[dtype_name(tensor)]


@cache
def several(dtype: str, start: int, count: int) -> MPI.Datatype:
    """Some elements as one thing, however many they are and wherever they begin.

    What is made is kept: a program has few buffers as large as that, and uses them often.
    """
    datatype = _DATATYPES[dtype]
    size = datatype.Get_size()
    full, rest = divmod(count, LARGEST)
    run = datatype.Create_contiguous(LARGEST if full else 0)
    places = [start * size, (start + full * LARGEST) * size]
    made = MPI.Datatype.Create_struct([full, rest], places, [run, datatype])
    run.Free()
    return made.Commit()


def operator(call: Call, side: Side | None) -> MPI.Op:
    assert side is not None
    assert call.op is not None
    name = dtype_name(side.tensor)
    if name in _HALVES:
        return _half_operator(name, call.op)
    return (_LOGICAL if name == "bool" else _OPERATORS)[call.op]


@cache
def _half_operator(name: str, op: Op) -> MPI.Op:
    dtype, combine = _HALVES[name], _TORCH[op]

    def function(left: Any, right: Any, _datatype: MPI.Datatype) -> None:
        if len(left):  # torch makes no tensor of an empty buffer
            result = torch.frombuffer(right, dtype=dtype)
            combine(torch.frombuffer(left, dtype=dtype), result, out=result)

    return MPI.Op.Create(function, commute=True)
