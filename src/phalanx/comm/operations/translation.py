"""What mpi4py is to do for a call: one of its methods, or several in a row."""

from itertools import accumulate
from typing import Any, NamedTuple

from mpi4py import MPI

from phalanx.comm.base import Call
from phalanx.comm.buffers import Plan, Side, label
from phalanx.comm.operations import memory
from phalanx.comm.operations.memory import operator, whole
from phalanx.errors import UsageError


class Operation(NamedTuple):
    """A method of mpi4py's communicators, by its blocking name, and what it is called with."""

    name: str
    arguments: list[Any]

    def run(self, mpi: MPI.Comm) -> None:
        """Carry it out."""
        getattr(mpi, self.name)(*self.arguments)

    def start(self, mpi: MPI.Comm) -> MPI.Request:
        """Begin it."""
        request: MPI.Request = getattr(mpi, f"I{self.name.lower()}")(*self.arguments)
        return request


def translate(call: Call, planned: Plan, *, rank: int) -> Operation:
    """The mpi4py method for a call, and its arguments."""
    send, receive, root = planned.send, planned.receive, call.root
    match call.verb:
        case "barrier":
            return Operation("Barrier", [])
        case "broadcast":
            return Operation("Bcast", [whole(receive), root])
        case "reduce":
            ends = [MPI.IN_PLACE, whole(receive)] if root == rank else [whole(receive), None]
            return Operation("Reduce", [*ends, operator(call, receive), root])
        case "allreduce":
            own = MPI.IN_PLACE if send is None else whole(send)
            return Operation("Allreduce", [own, whole(receive), operator(call, receive)])
        case "reduce_scatter":
            combine = operator(call, receive)
            if call.send_counts is None:
                return Operation("Reduce_scatter_block", [whole(send), whole(receive), combine])
            assert send is not None
            return Operation("Reduce_scatter", [whole(send), whole(receive), send.parts, combine])
    return _translate_exchange(call, planned, rank=rank)


def _translate_exchange(call: Call, planned: Plan, *, rank: int) -> Operation:
    """The same for scatter, gather, allgather and all_to_all, which have a form with counts."""
    send, receive = planned.send, planned.receive
    counted = call.send_counts is not None or call.receive_counts is not None
    ends: list[Any] = [_cut(side) if counted else whole(side) for side in (send, receive)]
    # A rank's own part may already be where it belongs.
    if call.verb in ("gather", "allgather") and in_place(receive, send, rank=rank):
        ends[0] = MPI.IN_PLACE
    if call.verb == "scatter" and in_place(send, receive, rank=rank):
        ends[1] = MPI.IN_PLACE
    name = "Alltoall" if call.verb == "all_to_all" else call.verb.capitalize()
    root = [] if call.root is None else [call.root]
    return Operation(name + "v" * counted, [*ends, *root])


def _cut(side: Side | None) -> list[Any] | None:
    """The same, with the part of each rank if there are several."""
    if side is None or side.parts is None:
        return whole(side)
    tensor = side.tensor
    if tensor.numel() > memory.LARGEST:
        raise UsageError(
            f"{label(tensor)}: this MPI moves at most {memory.LARGEST} elements at a time where "
            "ranks have parts of different sizes; give them parts of the same size"
        )
    places = list(accumulate(side.parts, initial=0))[:-1]
    return [memory.memory_of(tensor), (side.parts, places), memory.datatype_of(tensor)]


def in_place(cut: Side | None, part: Side | None, *, rank: int) -> bool:
    """Whether `part` is this rank's part of `cut`, the very same memory."""
    if cut is None or part is None or cut.parts is None or not part.tensor.numel():
        return False
    offset = sum(cut.parts[:rank]) * cut.tensor.element_size()
    return cut.tensor.data_ptr() + offset == part.tensor.data_ptr()
