"""Carries out the operations that all ranks have agreed on, in the order they agreed on.

Reductions of the same kind that became ready in the same round travel together in one buffer. A
rank that has joined takes part with zeros, of the shapes that the others have described.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, final

import torch
from torch import Tensor

from phalanx.comm.base import Call, Communicator
from phalanx.comm.device.streams import settle, wait_for
from phalanx.horovod.engine.adasum import adasum_
from phalanx.horovod.engine.backoff import SPINS_OF_A_CALLER, Backoff
from phalanx.horovod.engine.negotiation import Match
from phalanx.horovod.engine.reductions import finish_, mpi_op, scale_
from phalanx.horovod.engine.requests import Pending
from phalanx.horovod.engine.timeline import Timeline

#: Bytes up to which an operation is carried out by MPI's blocking form.
_SMALL = 1 << 16


def equal_rows(rows: int, size: int) -> list[int]:
    """Rows for each rank, as equal as they can be; the first ranks get one more."""
    return [rows // size + (rank < rows % size) for rank in range(size)]


@final
class Executor:
    """Carries out operations on one communicator, which nobody else uses."""

    def __init__(
        self,
        comm: Communicator,
        is_awaited: Callable[[], bool],
        *,
        members: Sequence[int],
        fusion_threshold: int,
        timeline: Timeline,
    ) -> None:
        """`is_awaited`: whether somebody does nothing but wait for the operations."""
        self._comm = comm
        self._is_awaited = is_awaited
        self._members = members
        self._threshold = fusion_threshold
        self._timeline = timeline

    def run(self, matches: list[Match], pending: Mapping[str, Pending]) -> None:
        """Collective. Carry out these operations; what this rank asked for gets its result."""
        asked = [pending[match.name] for match in matches if match.name in pending]
        for match in matches:
            self._timeline.begin(match.name, match.any.verb.upper())
            self._timeline.begin(match.name, "QUEUE")
        for one in asked:
            wait_for(one.marks)
        self._run(matches, pending)
        for one in asked:
            settle(one.marks)

    def _run(self, matches: list[Match], pending: Mapping[str, Pending]) -> None:
        for key, run in groupby(matches, _fusion_key):
            if key is None:
                for match in run:
                    self._timeline.end(match.name)
                    self._one(match, pending.get(match.name))
                    self._timeline.end(match.name)
                continue
            for batch in self._batches(run):
                for match in batch:
                    self._timeline.end(match.name)
                if len(batch) == 1 and len(batch[0].any.shapes) == 1:
                    self._one(batch[0], pending.get(batch[0].name))
                else:
                    self._allreduce(batch, pending)
                for match in batch:
                    self._timeline.end(match.name)

    def _batches(self, matches: Iterator[Match]) -> Iterator[list[Match]]:
        batch: list[Match] = []
        total = 0
        for match in matches:
            size = sum(shape_numel(shape) for shape in match.any.shapes)
            size *= getattr(torch, match.any.dtypes[0]).itemsize
            if batch and total + size > self._threshold:
                yield batch
                batch, total = [], 0
            batch.append(match)
            total += size
        if batch:
            yield batch

    def _one(self, match: Match, pending: Pending | None) -> None:
        verb = match.any.verb
        if verb == "barrier":
            return
        with self._timeline.during([match.name], f"MPI_{verb.upper()}"):
            carry_out = self._by_itself if verb == "allreduce" else getattr(self, f"_{verb}")
            result = [carry_out(match, index, pending) for index in range(len(match.any.shapes))]
        if pending is not None:
            pending.result = result

    def _allreduce(self, batch: list[Match], pending: Mapping[str, Pending]) -> None:
        names = [match.name for match in batch]
        parts = [(m, i, pending.get(m.name)) for m in batch for i in range(len(m.any.shapes))]
        dtype = getattr(torch, batch[0].any.dtypes[0])
        sizes = [shape_numel(match.any.shapes[index]) for match, index, _ in parts]
        buffer = torch.empty(sum(sizes), dtype=dtype)
        pieces = torch.split(buffer, sizes) if len(sizes) > 1 else [buffer]
        with self._timeline.during(names, "MEMCPY_IN_FUSION_BUFFER"):
            for (match, index, own), piece in zip(parts, pieces, strict=True):
                if own is None:
                    piece.zero_()
                else:
                    piece.view(own.tensors[index].shape).copy_(own.tensors[index].detach())
                scale_(piece, match.any.prescale)
        with self._timeline.during(names, "MPI_ALLREDUCE"):
            call = Call("allreduce", receive=buffer, op=mpi_op(batch[0].any.op))
            self._carry(call)
        with self._timeline.during(names, "MEMCPY_OUT_FUSION_BUFFER"):
            for (match, index, own), piece in zip(parts, pieces, strict=True):
                first = match.any
                finish_(piece, first.op, size=self._comm.size, postscale=first.postscale)
                if own is not None:
                    own.result = own.result or []
                    own.result.append(_output(own, index, piece, shared=len(parts) > 1))

    def _by_itself(self, match: Match, index: int, pending: Pending | None) -> Tensor | None:
        """A reduction of one tensor; if it is to be in place, in its own memory."""
        first = match.any
        if pending is None:
            buffer = torch.zeros(first.shapes[index], dtype=getattr(torch, first.dtypes[index]))
        else:
            buffer = pending.tensors[index].detach()
            if not (pending.in_place and buffer.device.type == "cpu" and buffer.is_contiguous()):
                buffer = torch.empty(buffer.shape, dtype=buffer.dtype).copy_(buffer)
        scale_(buffer, first.prescale)
        if first.op == "Adasum":
            adasum_(self._comm, buffer)
        else:
            self._carry(Call("allreduce", receive=buffer, op=mpi_op(first.op)))
        finish_(buffer, first.op, size=self._comm.size, postscale=first.postscale)
        if pending is None:
            return None
        own = pending.tensors[index]
        in_own_memory = pending.in_place and own.data_ptr() == buffer.data_ptr()
        return own if in_own_memory else _output(pending, index, buffer)

    def _allgather(self, match: Match, index: int, pending: Pending | None) -> Tensor:
        assert pending is not None
        send = _contiguous(pending.tensors[index])
        send = send if send.dim() else send.view(1)
        rows = [(*one.shapes[index], 1)[0] for one in match.by_rank.values()]
        receive = send.new_empty((sum(rows), *send.shape[1:]))
        self._carry(Call("allgather", send, receive, receive_counts=rows))
        return receive.to(pending.tensors[index].device)

    def _broadcast(self, match: Match, index: int, pending: Pending | None) -> Tensor:
        assert pending is not None
        own, root = pending.tensors[index], self._members.index(match.any.root)
        if self._comm.rank == root and pending.in_place:
            buffer = _contiguous(own)
        elif self._comm.rank == root:
            buffer = torch.empty(own.shape, dtype=own.dtype).copy_(own.detach())
        else:
            in_place = pending.in_place and own.device.type == "cpu" and own.is_contiguous()
            buffer = own.detach() if in_place else torch.empty(own.shape, dtype=own.dtype)
        self._carry(Call("broadcast", receive=buffer, root=root))
        if pending.in_place and (self._comm.rank == root or buffer.data_ptr() == own.data_ptr()):
            return own
        return _output(pending, index, buffer)

    def _alltoall(self, match: Match, index: int, pending: Pending | None) -> Any:
        assert pending is not None
        own = pending.tensors[index]
        rank, size = self._comm.rank, self._comm.size
        splits = [
            list(one.splits) if one.splits is not None else equal_rows(one.shapes[index][0], size)
            for one in match.by_rank.values()
        ]
        received = [row[rank] for row in splits]
        send = _contiguous(own)
        receive = send.new_empty((sum(received), *send.shape[1:]))
        call = Call("all_to_all", send, receive, send_counts=splits[rank], receive_counts=received)
        self._carry(call)
        return receive.to(own.device), torch.tensor(received, dtype=torch.int32)

    def _reducescatter(self, match: Match, index: int, pending: Pending | None) -> Tensor:
        assert pending is not None
        first, own = match.any, pending.tensors[index]
        send = torch.empty(own.shape, dtype=own.dtype).copy_(own.detach())
        scale_(send, first.prescale)
        counts = equal_rows(own.shape[0], self._comm.size)
        receive = send.new_empty((counts[self._comm.rank], *send.shape[1:]))
        call = Call("reduce_scatter", send, receive, op=mpi_op(first.op), send_counts=counts)
        self._carry(call)
        finish_(receive, first.op, size=self._comm.size, postscale=first.postscale)
        return receive.to(own.device)

    def _carry(self, call: Call) -> None:
        """Collective. Run a call to its end."""
        # All ranks are here or about to be: what is small is done before a request could be tested.
        if call.receive is not None and call.receive.nbytes <= _SMALL:
            self._comm.run(call)
            return
        # Not MPI's blocking form: that one would not let go of the core for a rank that needs it.
        request = self._comm.start(call)
        backoff = Backoff(spins=SPINS_OF_A_CALLER if self._is_awaited() else 0, longest=0.0002)
        while not request.test():
            backoff.rest()


def _fusion_key(match: Match) -> tuple[str, str] | None:
    """Operations next to each other with the same key travel together; None for alone."""
    first = match.any
    if first.verb != "allreduce" or first.op == "Adasum" or len(set(first.dtypes)) != 1:
        return None
    return first.dtypes[0], first.op


def shape_numel(shape: tuple[int, ...]) -> int:
    """The elements of a tensor of this shape."""
    return torch.Size(shape).numel()


def _contiguous(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu").contiguous()


def _output(pending: Pending, index: int, piece: Tensor, *, shared: bool = False) -> Tensor:
    """The result as the caller gets it: in its own tensor, or in a new one."""
    own = pending.tensors[index]
    if pending.in_place:
        own.detach().copy_(piece.view(own.shape))
        return own
    result = piece.view(own.shape).to(own.device)
    return result.clone() if shared and result.data_ptr() == piece.data_ptr() else result
