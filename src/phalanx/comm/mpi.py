"""The communicator of an MPI job, over mpi4py. Importing this module starts MPI."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any, final

import torch
from mpi4py import MPI

from phalanx.comm.base import Call, Communicator, Op, Request, Value
from phalanx.comm.buffers import Plan, Side, dtype_name, label, plan
from phalanx.errors import MismatchError, UsageError

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
_LARGEST = 2**31 - 1 if MPI.VERSION < 4 else 2**63 - 1


def open_world() -> "MPICommunicator":
    """Collective. All ranks of this job, apart from anyone else's messages."""
    return MPICommunicator(MPI.COMM_WORLD.Dup())


@final
class MPICommunicator(Communicator):
    """The ranks of an mpi4py communicator, which this one owns and frees."""

    def __init__(self, mpi: MPI.Comm) -> None:
        self._mpi = mpi
        self.rank = mpi.Get_rank()
        self.size = mpi.Get_size()

    def run(self, call: Call) -> None:
        planned = plan(call, self.rank, size=self.size)
        if call.verb == "receive":
            self._receive(call, planned)
            return
        name, arguments = _translate(call, planned, rank=self.rank)
        getattr(self._mpi, name)(*arguments)

    def prepare(self, call: Call) -> Callable[[], None]:
        if call.verb == "receive":
            return super().prepare(call)
        name, arguments = _translate(call, plan(call, self.rank, size=self.size), rank=self.rank)
        method = getattr(self._mpi, name)

        def run(_kept: Call = call) -> None:  # for its buffers' sake
            method(*arguments)

        return run

    def prepare_start(self, call: Call) -> Callable[[], Request]:
        name, arguments = _translate(call, plan(call, self.rank, size=self.size), rank=self.rank)
        method = getattr(self._mpi, f"I{name.lower()}")
        return lambda: _MPIRequest(method(*arguments), call)

    def start(self, call: Call) -> Request:
        name, arguments = _translate(call, plan(call, self.rank, size=self.size), rank=self.rank)
        return _MPIRequest(getattr(self._mpi, f"I{name.lower()}")(*arguments), call)

    def wait_any(self, requests: Sequence[Request]) -> int:
        handles = [request.handle for request in requests if isinstance(request, _MPIRequest)]
        if not requests or len(handles) != len(requests):
            raise UsageError("wait_any: give it one request of this communicator or more")
        if MPI.REQUEST_NULL in handles:  # MPI would ignore what is done already
            return handles.index(MPI.REQUEST_NULL)
        return MPI.Request.Waitany(handles)

    def _receive(self, call: Call, planned: Plan) -> None:
        # Open MPI 5 writes past the end of the buffer before it reports that a message was too
        # long for it. So look at the message first.
        side = planned.receive
        assert side is not None
        assert call.root is not None
        status = MPI.Status()
        message = self._mpi.Mprobe(call.root, call.tag, status)
        expected = side.tensor.numel() * side.tensor.element_size()
        size = status.Get_elements(MPI.BYTE)
        if size != expected:
            message.Recv([bytearray(size), MPI.BYTE])
            raise MismatchError(
                f"receive: rank {call.root} sent {size} bytes, rank {self.rank} "
                f"expects the {expected} of {label(side.tensor)}"
            )
        message.Recv(_whole(side))

    def barrier(self) -> None:
        """Collective. As the verb of that name, without its way through a `Call`: strategies in
        shared memory meet here twice a step, and the meeting itself takes less than a microsecond.
        """
        self._mpi.Barrier()

    def broadcast_object(self, value: Value, root: int = 0) -> Value:
        result: Value = self._mpi.bcast(value, root=root)
        return result

    def gather_objects(self, value: Value, root: int = 0) -> list[Value] | None:
        return self._mpi.gather(value, root=root)

    def allgather_objects(self, value: Value) -> list[Value]:
        return self._mpi.allgather(value)

    def split(self, color: int, key: int = 0) -> Communicator:
        if color < 0:
            raise UsageError(f"split: the color must not be negative, as {color} is")
        return MPICommunicator(self._mpi.Split(color, key))

    def host(self) -> Communicator:
        return MPICommunicator(self._mpi.Split_type(MPI.COMM_TYPE_SHARED, self.rank))

    def free(self) -> None:
        self._mpi.Free()

    def abort(self, code: int) -> None:
        self._mpi.Abort(code)


@final
class _MPIRequest(Request):
    def __init__(self, handle: MPI.Request, call: Call) -> None:
        self.handle = handle
        self._call = call  # for its buffers' sake

    def wait(self) -> None:
        self.handle.Wait()

    def test(self) -> bool:
        return self.handle.Test()


def _translate(call: Call, planned: Plan, *, rank: int) -> tuple[str, list[Any]]:
    """The mpi4py method for a call, and its arguments."""
    send, receive, root = planned.send, planned.receive, call.root
    match call.verb:
        case "barrier":
            return "Barrier", []
        case "send":
            return "Send", [_whole(send), root, call.tag]
        case "receive":
            return "Recv", [_whole(receive), root, call.tag]
        case "broadcast":
            return "Bcast", [_whole(receive), root]
        case "reduce":
            ends = [MPI.IN_PLACE, _whole(receive)] if root == rank else [_whole(receive), None]
            return "Reduce", [*ends, _operator(call, receive), root]
        case "allreduce":
            own = MPI.IN_PLACE if send is None else _whole(send)
            return "Allreduce", [own, _whole(receive), _operator(call, receive)]
        case "reduce_scatter":
            operator = _operator(call, receive)
            if call.send_counts is None:
                return "Reduce_scatter_block", [_whole(send), _whole(receive), operator]
            assert send is not None
            return "Reduce_scatter", [_whole(send), _whole(receive), send.parts, operator]
    return _translate_exchange(call, planned, rank=rank)


def _translate_exchange(call: Call, planned: Plan, *, rank: int) -> tuple[str, list[Any]]:
    """The same for scatter, gather, allgather and all_to_all, which have a form with counts."""
    send, receive = planned.send, planned.receive
    counted = call.send_counts is not None or call.receive_counts is not None
    ends: list[Any] = [_cut(side) if counted else _whole(side) for side in (send, receive)]
    # A rank's own part may already be where it belongs.
    if call.verb in ("gather", "allgather") and _in_place(receive, send, rank=rank):
        ends[0] = MPI.IN_PLACE
    if call.verb == "scatter" and _in_place(send, receive, rank=rank):
        ends[1] = MPI.IN_PLACE
    name = "Alltoall" if call.verb == "all_to_all" else call.verb.capitalize()
    root = [] if call.root is None else [call.root]
    return name + "v" * counted, [*ends, *root]


def _whole(side: Side | None) -> list[Any] | None:
    """mpi4py's description of a buffer."""
    if side is None:
        return None
    tensor = side.tensor
    if not tensor.is_cpu:
        raise UsageError(
            f"{label(tensor)} on {tensor.device}: MPI takes CPU memory; "
            "`phalanx.comm.device.on_device` makes a communicator for other devices"
        )
    if tensor.numel() > _LARGEST:
        raise UsageError(f"{label(tensor)}: this MPI moves at most {_LARGEST} elements at a time")
    memory = MPI.buffer.fromaddress(tensor.data_ptr(), tensor.numel() * tensor.element_size())
    return [memory, _DATATYPES[dtype_name(tensor)]]


def _cut(side: Side | None) -> list[Any] | None:
    """The same, with the part of each rank if there are several."""
    described = _whole(side)
    if described is None or side is None or side.parts is None:
        return described
    memory, datatype = described
    return [memory, (side.parts, list(accumulate(side.parts, initial=0))[:-1]), datatype]


def _in_place(cut: Side | None, part: Side | None, *, rank: int) -> bool:
    """Whether `part` is this rank's part of `cut`, the very same memory."""
    if cut is None or part is None or cut.parts is None or not part.tensor.numel():
        return False
    offset = sum(cut.parts[:rank]) * cut.tensor.element_size()
    return cut.tensor.data_ptr() + offset == part.tensor.data_ptr()


def _operator(call: Call, side: Side | None) -> MPI.Op:
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
