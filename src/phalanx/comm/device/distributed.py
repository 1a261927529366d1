"""A communicator over torch.distributed: NCCL between GPUs, gloo between CPUs.

It stands on another communicator, MPI's, by which its ranks find each other. Collectives of tensors
on its device go over torch.distributed; whatever is elsewhere in memory goes over MPI, as do
objects, barriers and messages between two ranks: NCCL knows no tags, and two of its messages can
wait for each other where two of MPI's do not.

Neither backend has every verb for every type. Data that is only moved is moved as bytes; parts of
unequal size are exchanged by all-to-all, or broadcast one by one; numbers are combined as
`phalanx.comm.device.encoding` says, and complex ones multiplied by each rank, from all of them.

A communicator that was made of another one shares its store, so free that one last. What costs
threads and descriptors, the group, is opened by the first call that needs it: few ever do.
"""

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import torch
import torch.distributed as dist
from torch import Tensor

from phalanx.comm.base import Array, Call, Communicator, Op, Request
from phalanx.comm.buffers import Plan, Side, plan
from phalanx.comm.device.encoding import as_bytes, can_combine, decode, encode
from phalanx.comm.device.group import Group
from phalanx.comm.device.rendezvous import open_store
from phalanx.comm.wrapped import WrappedCommunicator
from phalanx.errors import UsageError

_OPERATORS: dict[Op, Any] = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "minimum": dist.ReduceOp.MIN,
    "maximum": dist.ReduceOp.MAX,
}
_POLL_SECONDS = 20e-6


def _nothing() -> None:
    pass


class _Begun(NamedTuple):
    """What torch.distributed has under way for a call, and what is to be done afterwards."""

    works: Sequence[Any]
    finish: Callable[[], None] = _nothing


@final
class DistributedCommunicator(WrappedCommunicator):
    """The ranks of another communicator, with their tensors on a device, or as if they were."""

    def __init__(self, inner: Communicator, device: torch.device, *, store: Any = None) -> None:
        """Collective. `inner` moves what is not on the device; it is freed with this one. Its ranks
        meet at a `store`, by default one of their own."""
        super().__init__(inner)
        self.shares_memory, self.progresses = False, True
        self._device = device
        self._store = open_store(inner) if store is None else store  # rank 0's serves all others
        self._opened: Group | None = None
        self._derived = 0

    @property
    def _group(self) -> Any:
        """Collective, when first asked for."""
        if self._opened is None:
            self._opened = Group(self._store, self._inner, self._device)
            weakref.finalize(self, self._opened.close)  # of one that nobody frees
            self._inner.barrier()  # else rank 0 could give the store back while others read it
        return self._opened.group

    def run(self, call: Call) -> None:
        if self._is_for_inner(call):
            self._inner.run(call)
        else:
            self.start(call).wait()

    def start(self, call: Call) -> Request:
        if self._is_for_inner(call):
            return self._inner.start(call)
        planned = plan(call, self.rank, size=self.size)
        return _Pending(self._begin(call, planned), call)

    def wait_any(self, requests: Sequence[Request]) -> int:
        if not requests:
            raise UsageError("wait_any: give it one request of this communicator or more")
        while True:
            for index, request in enumerate(requests):
                if request.test():
                    return index
            time.sleep(_POLL_SECONDS)

    def _is_for_inner(self, call: Call) -> bool:
        if call.verb in ("send", "receive", "barrier"):
            return True
        kinds = {_device_type(one) for one in (call.send, call.receive) if one is not None}
        if len(kinds) > 1:
            raise UsageError(f"{call.verb}: one buffer on each of {' and '.join(sorted(kinds))}")
        return kinds != {self._device.type}

    def _begin(self, call: Call, planned: Plan) -> _Begun:
        match call.verb:
            case "broadcast":
                return self._broadcast(_tensor(planned.receive), _root(call))
            case "allreduce":
                buffer = _tensor(planned.receive)
                if planned.send is not None:
                    _copy(planned.send.tensor, into=buffer)
                return self._allreduce(buffer, _op(call), into=buffer)
            case "reduce":
                return self._reduce(_tensor(planned.receive), _op(call), _root(call))
            case "reduce_scatter":
                return self._reduce_scatter(call, planned)
            case "allgather":
                return self._allgather(call, planned)
        return self._exchange(call, planned)

    def _broadcast(self, buffer: Tensor, root: int) -> _Begun:
        if not buffer.numel():
            return _Begun([])
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = root, 0
        return _Begun([self._group.broadcast([as_bytes(buffer)], options)])

    def _allreduce(self, buffer: Tensor, op: Op, *, into: Tensor) -> _Begun:
        """Combine all buffers, which are used up, and put the first elements in `into`."""
        if not buffer.numel():
            return _Begun([])
        if not can_combine(buffer, op):
            return self._combine_here(buffer, into=into)
        encoded, how = encode(buffer, op)
        options = dist.AllreduceOptions()
        options.reduceOp = _OPERATORS[how]
        work = self._group.allreduce([encoded], options)
        return _Begun([work], lambda: decode(encoded, op, into=into))

    def _combine_here(self, buffer: Tensor, *, into: Tensor) -> _Begun:
        """The product of all buffers, by every rank for itself."""
        everyone = buffer.new_empty((self.size, buffer.numel()))
        work = self._group._allgather_base(as_bytes(everyone), as_bytes(buffer.clone()))
        return _Begun([work], lambda: _copy(everyone.prod(0), into=into))

    def _reduce(self, buffer: Tensor, op: Op, root: int) -> _Begun:
        # A backend may use the buffers of all ranks, and this verb is to leave the others alone.
        mine = buffer if root == self.rank else buffer.clone()
        if not buffer.numel() or not can_combine(buffer, op):
            return self._allreduce(mine, op, into=mine)
        encoded, how = encode(mine, op)
        options = dist.ReduceOptions()
        options.reduceOp, options.rootRank = _OPERATORS[how], root
        work = self._group.reduce([encoded], options)
        return _Begun([work], lambda: decode(encoded, op, into=mine))

    def _reduce_scatter(self, call: Call, planned: Plan) -> _Begun:
        send, receive, op = _tensor(planned.send), _tensor(planned.receive), _op(call)
        if call.send_counts is None and send.numel() and can_combine(send, op):
            encoded, how = encode(send, op)
            part = encoded.new_empty(encoded.numel() // self.size)
            options = dist.ReduceScatterOptions()
            options.reduceOp = _OPERATORS[how]
            work = self._group._reduce_scatter_base(part, encoded, options)
            return _Begun([work], lambda: decode(part, op, into=receive))
        whole = send.clone().view(-1)
        begun = self._allreduce(whole, op, into=whole)
        start = sum(_parts(planned.send)[: self.rank])

        def finish() -> None:
            begun.finish()
            receive.view(-1).copy_(whole[start : start + receive.numel()])

        return _Begun(begun.works, finish)

    def _allgather(self, call: Call, planned: Plan) -> _Begun:
        send, whole = _tensor(planned.send).view(-1), _tensor(planned.receive).view(-1)
        parts = torch.split(whole, _parts(planned.receive))
        mine = parts[self.rank]
        if whole.numel() and len({part.numel() for part in parts}) == 1:
            own = send.clone() if send.data_ptr() == mine.data_ptr() else send
            return _Begun([self._group._allgather_base(as_bytes(whole), as_bytes(own))])
        if send.data_ptr() != mine.data_ptr():
            mine.copy_(send)
        begun = [self._broadcast(part, rank) for rank, part in enumerate(parts)]
        return _Begun([work for one in begun for work in one.works])

    def _exchange(self, call: Call, planned: Plan) -> _Begun:
        """scatter, gather and all_to_all: what each rank has for each other."""
        send, receive = planned.send, planned.receive
        some = send or receive
        assert some is not None
        nothing = some.tensor.new_empty(0)
        inputs = nothing if send is None else send.tensor
        outputs = nothing if receive is None else receive.tensor
        if call.verb == "gather" and receive is not None:
            inputs = inputs.clone()  # it may be this rank's part of the outputs
        # The root's part of a scatter may be where it is to go already.
        room = torch.empty_like(outputs) if call.verb == "scatter" and send else outputs
        work = self._group.alltoall_base(
            as_bytes(room),
            as_bytes(inputs),
            self._splits(receive, call.root),
            self._splits(send, call.root),
        )
        if room is outputs:
            return _Begun([work])
        return _Begun([work], lambda: _copy(room, into=outputs))

    def _splits(self, side: Side | None, root: int | None) -> list[int]:
        """The bytes to or from each rank; without parts they are the root's alone."""
        if side is None:
            return [0] * self.size
        size = side.tensor.element_size()
        if side.parts is not None:
            return [part * size for part in side.parts]
        whole = side.tensor.numel() * size
        return [whole if rank == root else 0 for rank in range(self.size)]

    def free(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._store = None
        super().free()

    def _wrap(self, inner: Communicator) -> Communicator:
        self._derived += 1
        # Communicators of one split have different first ranks, those of several other numbers.
        name = inner.broadcast_object(f"{self._derived}.{self.rank}")
        store = dist.PrefixStore(name, self._store)  # type: ignore[attr-defined]
        return DistributedCommunicator(inner, self._device, store=store)


@final
class _Pending(Request):
    def __init__(self, begun: _Begun, call: Call) -> None:
        self._begun: _Begun | None = begun
        self._call = call  # for its buffers' sake

    def wait(self) -> None:
        if self._begun is not None:
            for work in self._begun.works:
                work.wait()
            self._begun.finish()
            self._begun = None

    def test(self) -> bool:
        if self._begun is not None and all(work.is_completed() for work in self._begun.works):
            self.wait()
        return self._begun is None


def _copy(tensor: Tensor, *, into: Tensor) -> None:
    into.view(-1).copy_(tensor.view(-1))


def _device_type(buffer: Array) -> str:
    return buffer.device.type if isinstance(buffer, Tensor) else "cpu"


def _tensor(side: Side | None) -> Tensor:
    assert side is not None
    return side.tensor


def _parts(side: Side | None) -> list[int]:
    assert side is not None
    assert side.parts is not None
    return side.parts


def _op(call: Call) -> Op:
    assert call.op is not None
    return call.op


def _root(call: Call) -> int:
    assert call.root is not None
    return call.root
