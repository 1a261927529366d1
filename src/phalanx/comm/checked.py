"""A communicator that first makes sure that the ranks agree on what they are doing.

Where MPI would hang, or mix up data, a mistake becomes a MismatchError on every rank, and the
communicator goes on working. It costs a message round for each operation, so it is for tests and
for finding out why a program hangs. A non-blocking collective waits here until all have called it.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from phalanx.comm.base import Call, Communicator, Request, Value
from phalanx.comm.buffers import Plan, Side, as_tensor, dtype_name, label, plan
from phalanx.comm.wrapped import WrappedCommunicator
from phalanx.errors import MismatchError, UsageError

_HEADER_BYTES = 256


@dataclass(frozen=True)
class _Claim:
    """What one rank says about the collective that it is in."""

    verb: str
    root: int | None = None
    op: str | None = None
    dtype: str | None = None
    buffer: str | None = None
    #: Whether counts were given: MPI has an operation of its own for that.
    counted: bool = False
    #: Elements to and from each rank; None where this rank does not know or take part.
    sent: tuple[int | None, ...] = ()
    received: tuple[int | None, ...] = ()
    error: str | None = None


@final
class CheckedCommunicator(WrappedCommunicator):
    """Another communicator, with every operation checked across its ranks before it starts."""

    def __init__(self, inner: Communicator) -> None:
        super().__init__(inner)
        self._arriving: dict[tuple[int, int], deque[_Receive]] = {}

    def run(self, call: Call) -> None:
        if call.verb == "receive":
            self.start(call).wait()
            return
        planned = self._check(call)
        if call.verb == "send":
            assert call.root is not None
            self._inner.send(_header(planned), call.root, tag=2 * call.tag)
            self._inner.send(_buffer(planned), call.root, tag=2 * call.tag + 1)
            return
        self._inner.run(call)

    def start(self, call: Call) -> Request:
        planned = self._check(call)
        if call.verb == "receive":
            assert call.root is not None
            queue = self._arriving.setdefault((call.root, call.tag), deque())
            return _Receive(self._inner, call, queue=queue)
        if call.verb == "send":
            assert call.root is not None
            return _Send(
                self._inner.isend(_header(planned), call.root, tag=2 * call.tag),
                self._inner.isend(_buffer(planned), call.root, tag=2 * call.tag + 1),
            )
        return self._inner.start(call)

    def wait_any(self, requests: Sequence[Request]) -> int:
        while True:
            for index, request in enumerate(requests):
                if request.test():
                    return index
            stages = [one.stage() if isinstance(one, _Staged) else one for one in requests]
            # Receives from one rank can wait for the same header, which MPI may be given but once.
            self._inner.wait_any(list(dict.fromkeys(stages)))

    def _check(self, call: Call) -> Plan:
        """Collective, but for send and receive. Raise unless all ranks' calls fit together."""
        if call.verb in ("send", "receive"):
            return plan(call, self.rank, size=self.size)
        try:
            planned = plan(call, self.rank, size=self.size)
            claim = _claim(call, planned, size=self.size)
        except UsageError as error:
            self._agree(_Claim(call.verb, error=str(error)), own_error=True)
            raise
        self._agree(claim)
        return planned

    def _agree(self, claim: _Claim, *, own_error: bool = False) -> None:
        claims = self._inner.allgather_objects(claim)
        if not own_error:
            _compare(claims)

    def broadcast_object(self, value: Value, root: int = 0) -> Value:
        self._agree(_Claim("broadcast_object", root=root))
        return super().broadcast_object(value, root)

    def gather_objects(self, value: Value, root: int = 0) -> list[Value] | None:
        self._agree(_Claim("gather_objects", root=root))
        return super().gather_objects(value, root)

    def allgather_objects(self, value: Value) -> list[Value]:
        self._agree(_Claim("allgather_objects"))
        return super().allgather_objects(value)

    def split(self, color: int, key: int = 0) -> Communicator:
        self._agree(_Claim("split"))
        return super().split(color, key)

    def host(self) -> Communicator:
        self._agree(_Claim("host"))
        return super().host()

    def _wrap(self, inner: Communicator) -> Communicator:
        return CheckedCommunicator(inner)


class _Staged(Request):
    """A message in two parts."""

    @abstractmethod
    def stage(self) -> Request:
        """What a message that is not done yet waits for."""


@final
class _Send(_Staged):
    """A header and its payload."""

    def __init__(self, header: Request, payload: Request) -> None:
        self._parts = (header, payload)

    def wait(self) -> None:
        for part in self._parts:
            part.wait()

    def test(self) -> bool:
        return all(part.test() for part in self._parts)

    def stage(self) -> Request:
        header, payload = self._parts
        return payload if header.test() else header


@final
class _Receive(_Staged):
    """A header, and when it has come and fits, its payload.

    Payloads must be taken in the order of their headers, whichever request is waited for first:
    hence the queue of those from the same rank, with the same tag, whose header is still to come.
    """

    def __init__(self, inner: Communicator, call: Call, *, queue: "deque[_Receive]") -> None:
        assert call.root is not None
        self._inner, self._root, self._tag = inner, call.root, 2 * call.tag
        self._buffer = as_tensor(call.receive)
        self._call = call
        self._header = torch.zeros(_HEADER_BYTES, dtype=torch.uint8, device="cpu")
        self._header_request = inner.ireceive(self._header, self._root, tag=self._tag)
        self._payload: Request | None = None
        self._error: str | None = None
        self._queue = queue
        queue.append(self)

    def wait(self) -> None:
        while self._payload is None:
            self._queue[0]._header_request.wait()
            self._queue.popleft()._take()
        self._payload.wait()
        self._raise()

    def test(self) -> bool:
        while self._payload is None:
            if not self._queue[0]._header_request.test():
                return False
            self._queue.popleft()._take()
        if not self._payload.test():
            return False
        self._raise()
        return True

    def stage(self) -> Request:
        return self._queue[0]._header_request if self._payload is None else self._payload

    def _take(self) -> None:
        """Receive the payload: in the buffer if it fits, else only to get it out of the way."""
        name, elements, brought = bytes(self._header.tolist()).decode().rstrip("\0").split(" ", 2)
        target = self._buffer
        if (name, int(elements)) != (dtype_name(target), target.numel()):
            self._error = (
                f"receive: rank {self._root} sent {brought}, "
                f"rank {self._inner.rank} expects {label(target)}"
            )
            target = torch.empty(int(elements), dtype=getattr(torch, name), device="cpu")
        self._payload = self._inner.ireceive(target, self._root, tag=self._tag + 1)

    def _raise(self) -> None:
        if self._error:
            raise MismatchError(self._error)


def _buffer(planned: Plan) -> torch.Tensor:
    assert planned.send is not None
    return planned.send.tensor


def _header(planned: Plan) -> torch.Tensor:
    tensor = _buffer(planned)
    text = f"{dtype_name(tensor)} {tensor.numel()} {label(tensor)}".encode()
    return torch.frombuffer(
        bytearray(text[:_HEADER_BYTES].ljust(_HEADER_BYTES, b"\0")), dtype=torch.uint8
    )


def _claim(call: Call, planned: Plan, *, size: int) -> _Claim:
    tensor = next((s.tensor for s in (planned.send, planned.receive) if s is not None), None)
    in_place = call.verb in ("broadcast", "reduce", "allreduce")
    return _Claim(
        call.verb,
        root=call.root,
        op=call.op,
        dtype=None if tensor is None else dtype_name(tensor),
        buffer=label(tensor) if in_place and tensor is not None else None,
        counted=call.send_counts is not None or call.receive_counts is not None,
        sent=_elements(planned.send, call.root if call.verb == "gather" else None, size=size),
        received=_elements(
            planned.receive, call.root if call.verb == "scatter" else None, size=size
        ),
    )


def _elements(side: Side | None, root: int | None, *, size: int) -> tuple[int | None, ...]:
    """What goes to, or comes from, each rank; only the root if there is one."""
    if side is None:
        return (None,) * size
    if side.parts is not None:
        return tuple(side.parts)
    count = side.tensor.numel()
    return tuple(count if root in (None, rank) else None for rank in range(size))


def _compare(claims: list[_Claim]) -> None:
    """Raise for the first two ranks whose claims do not go together."""
    first = claims[0]
    for rank, claim in enumerate(claims):
        if claim.verb != first.verb:
            raise MismatchError(f"rank {rank} called {claim.verb}, rank 0 {first.verb}")
    for rank, claim in enumerate(claims):
        if claim.error is not None:
            raise MismatchError(f"rank {rank} failed: {claim.error}")
    for rank, claim in enumerate(claims):
        for here, there in zip(_features(claim), _features(first), strict=True):
            if here != there:
                raise MismatchError(f"{first.verb}: rank {rank} {here}, rank 0 {there}")
    _compare_elements(claims)


def _features(claim: _Claim) -> tuple[str, ...]:
    """What must be the same on all ranks, as messages put it."""
    return (
        f"named root {claim.root}",
        f"asked for {claim.op}",
        f"brought {claim.buffer or claim.dtype}",
        f"gave {'counts' if claim.counted else 'no counts'}",
    )


def _compare_elements(claims: list[_Claim]) -> None:
    """Every rank must send to every other what that one is going to receive."""
    for sender, claim in enumerate(claims):
        for receiver, count in enumerate(claim.sent):
            expected = claims[receiver].received[sender]
            if None not in (count, expected) and count != expected:
                raise MismatchError(
                    f"{claim.verb}: rank {sender} sends {count} elements to rank {receiver}, "
                    f"rank {receiver} expects {expected}"
                )


def unchecked(comm: Communicator) -> Communicator:
    """The same ranks without the checks: there a non-blocking collective waits for nobody."""
    return comm._inner if isinstance(comm, CheckedCommunicator) else comm
