"""Calls over more elements than MPI can count, which before MPI 4 are 2^31.

What only moves elements needs but a datatype that is many of them. What also combines them is done
in several operations, one after the other. And where a buffer has a part for each rank, the place
of a part may be beyond what MPI counts to: there all exchange with all, each part a datatype that
knows its place.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from mpi4py import MPI
from torch import Tensor

from phalanx.comm.base import Call
from phalanx.comm.buffers import Plan, Side, dtype_name
from phalanx.comm.operations import memory
from phalanx.comm.operations.memory import datatype_of, described, memory_of, operator, several
from phalanx.comm.operations.translation import Operation, in_place, translate

#: What of a buffer goes to a rank, or comes from it: the first element, and how many.
_Part = tuple[int, int]


def operations(call: Call, planned: Plan, *, rank: int, size: int) -> Sequence[Operation]:
    """What carries out a call, in this order on every rank."""
    if _elements(call, planned, size=size) <= memory.LARGEST:
        return [translate(call, planned, rank=rank)]
    if call.verb == "reduce_scatter":
        return _reduce_parts(call, planned, rank=rank)
    if call.verb in ("reduce", "allreduce"):
        return [translate(call, piece, rank=rank) for piece in _pieces(planned)]
    return [_exchange(call, planned, rank=rank, size=size)]


def _elements(call: Call, planned: Plan, *, size: int) -> int:
    """What must be counted for a call, as all ranks know it."""
    send, receive = planned.send, planned.receive
    match call.verb:
        case "reduce" | "allreduce" | "allgather":
            assert receive is not None
            return receive.tensor.numel()
        case "reduce_scatter":
            assert send is not None
            return send.tensor.numel()
        case "all_to_all" if call.send_counts is None and call.receive_counts is None:
            assert send is not None
            return send.tensor.numel()
        case "gather" if call.receive_counts is None:
            assert send is not None
            return send.tensor.numel() * size
        case "scatter" if call.send_counts is None:
            assert receive is not None
            return receive.tensor.numel() * size
    return 0


def _pieces(planned: Plan) -> list[Plan]:
    """A call that treats every element alike, in pieces."""
    assert planned.receive is not None
    sends = None if planned.send is None else _split(planned.send.tensor)
    return [
        Plan(None if sends is None else Side(sends[number]), Side(piece))
        for number, piece in enumerate(_split(planned.receive.tensor))
    ]


def _split(tensor: Tensor) -> tuple[Tensor, ...]:
    return torch.split(tensor.view(-1), memory.LARGEST)


def _reduce_parts(call: Call, planned: Plan, *, rank: int) -> list[Operation]:
    """Each rank's part is combined there."""
    send, receive = planned.send, planned.receive
    assert send is not None
    assert send.parts is not None
    assert receive is not None
    combine = operator(call, receive)
    found = []
    for root, part in enumerate(torch.split(send.tensor.view(-1), send.parts)):
        into = _split(receive.tensor) if root == rank else ()
        for number, piece in enumerate(_split(part)):
            end = described(into[number]) if root == rank else None
            found.append(Operation("Reduce", [described(piece), end, combine, root]))
    return found


def _exchange(call: Call, planned: Plan, *, rank: int, size: int) -> Operation:
    """Everybody's parts to everybody, or to and from a root."""
    send, receive, root = planned.send, planned.receive, call.root

    # A root takes part in what everybody does, everybody else in what is done with the root.
    sends = _parts(send, size, wanted=lambda to: to == root or call.verb != "gather")
    receives = _parts(receive, size, wanted=lambda of: of == root or call.verb != "scatter")
    gathers = call.verb in ("gather", "allgather")
    cut, part = (receive, send) if gathers else (send, receive)
    if call.verb != "all_to_all" and in_place(cut, part, rank=rank):
        sends[rank] = receives[rank] = (0, 0)  # it is there already
    return Operation("Alltoallw", [_typed(send, sends), _typed(receive, receives)])


def _parts(side: Side | None, size: int, *, wanted: Callable[[int], bool]) -> list[_Part]:
    """What of a side is each rank's, if it is wanted there."""
    if side is None:
        return [(0, 0)] * size
    if side.parts is None:
        parts = [(0, side.tensor.numel())] * size
    else:
        starts = list(accumulate(side.parts, initial=0))
        parts = list(zip(starts, side.parts, strict=False))
    return [part if wanted(rank) else (0, 0) for rank, part in enumerate(parts)]


def _typed(side: Side | None, parts: Sequence[_Part]) -> list[Any]:
    """mpi4py's description of a buffer that is cut in parts, each with a datatype of its own."""
    places = [0] * len(parts)
    if side is None:
        return [bytearray(), (places, places), [MPI.BYTE] * len(parts)]
    dtype, base = dtype_name(side.tensor), datatype_of(side.tensor)
    counts = [int(count > 0) for _, count in parts]
    types = [several(dtype, start, count) if count else base for start, count in parts]
    return [memory_of(side.tensor), (counts, places), types]
