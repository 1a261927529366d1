"""The memory behind a call: tensors and arrays checked, and cut into one part for each rank."""

from typing import NamedTuple, get_args

import numpy as np
import torch

from phalanx.comm.base import Array, Call, Counts, Op
from phalanx.errors import UsageError

#: What MPI can move, by the name that torch and numpy share.
DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
_NAMES = {getattr(torch, name): name for name in DTYPES}
_OPS = get_args(Op)

#: Which side of a verb is cut into one part for each rank; the other side is one such part.
_CUT_SEND = frozenset({"scatter", "reduce_scatter", "all_to_all"})
_CUT_RECEIVE = frozenset({"gather", "allgather", "all_to_all"})
_IN_PLACE = frozenset({"broadcast", "reduce", "allreduce"})
_SENDING = _CUT_SEND | _CUT_RECEIVE | {"send"}
_RECEIVING = _CUT_SEND | _CUT_RECEIVE | _IN_PLACE | {"receive"}


class Side(NamedTuple):
    """What one rank sends or receives in a call."""

    tensor: torch.Tensor
    #: Elements for each rank, where the buffer is cut; None where the whole is for everybody.
    parts: list[int] | None = None


class Plan(NamedTuple):
    """A call that was found to make sense on this rank."""

    send: Side | None
    receive: Side | None


def plan(call: Call, rank: int, *, size: int) -> Plan:
    """Check this rank's part of a call, and work out which elements go where."""
    if call.root is not None and not 0 <= call.root < size:
        raise UsageError(f"{call.verb}: there is no rank {call.root} among {size} ranks")
    if call.op is not None and call.op not in _OPS:
        raise UsageError(f"{call.verb}: unknown op {call.op!r}; known: {', '.join(_OPS)}")
    try:
        send = receive = None
        sends = call.verb in _SENDING or (call.verb == "allreduce" and call.send is not None)
        if sends and not (call.verb == "scatter" and call.root != rank):
            cut = call.verb in _CUT_SEND
            send = _side(call, call.send, size=size, cut=cut, counts=call.send_counts)
        if call.verb in _RECEIVING and not (call.verb == "gather" and call.root != rank):
            cut = call.verb in _CUT_RECEIVE
            receive = _side(call, call.receive, size=size, cut=cut, counts=call.receive_counts)
        _check_parts(send, receive, rank=rank)
    except UsageError as error:
        raise UsageError(f"{call.verb}: {error}") from None
    return Plan(send, receive)


def as_tensor(buffer: object) -> torch.Tensor:
    """The buffer's own memory as a tensor; refuses what could not be used in place."""
    if isinstance(buffer, torch.Tensor):
        tensor = buffer.detach()
        if tensor.is_meta:
            raise UsageError("a buffer on meta, without data; it is to be CPU memory or a GPU's")
    elif isinstance(buffer, np.ndarray):
        tensor = _from_array(buffer)
    elif buffer is None:
        raise UsageError("a buffer is missing; only the root's may be left out elsewhere")
    else:
        raise UsageError(f"a buffer is a torch tensor or numpy array, not {type(buffer).__name__}")
    if tensor.layout is not torch.strided or not tensor.is_contiguous():
        raise UsageError(f"{label(tensor)} is not contiguous; pass .contiguous() or copy it first")
    if tensor.dtype not in _NAMES:
        raise UsageError(f"{label(tensor)}: this dtype cannot be sent; known: {', '.join(DTYPES)}")
    return tensor


def _from_array(array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> torch.Tensor:
    name = f"{array.dtype}{list(array.shape)}"
    if array.dtype.name not in DTYPES or not array.dtype.isnative:
        raise UsageError(f"{name}: this dtype cannot be sent; known: {', '.join(DTYPES)}")
    if not array.flags.writeable:
        raise UsageError(f"{name} is read-only; pass a writable copy")
    if not array.flags.c_contiguous:
        raise UsageError(f"{name} is not contiguous; pass numpy.ascontiguousarray() of it")
    return torch.from_numpy(array)


def dtype_name(tensor: torch.Tensor) -> str:
    """The dtype's name without the library's: float32."""
    return _NAMES.get(tensor.dtype) or str(tensor.dtype).removeprefix("torch.")


def label(tensor: torch.Tensor) -> str:
    """A buffer as messages name it: float32[10, 3]."""
    return f"{dtype_name(tensor)}{list(tensor.shape)}"


def _side(call: Call, buffer: Array | None, *, size: int, cut: bool, counts: Counts | None) -> Side:
    tensor = as_tensor(buffer)
    if call.op in ("minimum", "maximum") and tensor.is_complex():
        raise UsageError(f"{call.op} of {label(tensor)}: complex numbers have no order")
    return Side(tensor, _cut(tensor, counts, size=size) if cut else None)


def _cut(tensor: torch.Tensor, counts: Counts | None, *, size: int) -> list[int]:
    """Elements for each rank."""
    rows = tensor.shape[0] if tensor.dim() else 1
    if counts is None:
        if rows % size:
            raise UsageError(
                f"{rows} rows of {label(tensor)} are not {size} equal parts; give counts"
            )
        counts = [rows // size] * size
    if len(counts) != size or min(counts) < 0 or sum(counts) != rows:
        raise UsageError(
            f"counts {list(counts)} must be {size} numbers that add up to "
            f"the {rows} rows of {label(tensor)}"
        )
    width = tensor.shape[1:].numel()
    return [int(count) * width for count in counts]


def _check_parts(send: Side | None, receive: Side | None, *, rank: int) -> None:
    """Refuse buffers that contradict each other on this rank."""
    if send is None or receive is None:
        return
    if send.tensor.dtype != receive.tensor.dtype:
        raise UsageError(f"sends {label(send.tensor)} but receives {label(receive.tensor)}")
    whole = send.parts is None and receive.parts is None
    if whole and send.tensor.numel() != receive.tensor.numel():
        raise UsageError(f"sends {label(send.tensor)} but receives {label(receive.tensor)}")
    for cut, part in ((send, receive), (receive, send)):
        if cut.parts is not None and part.parts is None and cut.parts[rank] != part.tensor.numel():
            raise UsageError(
                f"rank {rank}'s part of {label(cut.tensor)} has {cut.parts[rank]} elements, "
                f"not the {part.tensor.numel()} of {label(part.tensor)}"
            )
