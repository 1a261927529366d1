"""A communicator for tensors on devices that MPI cannot reach: through pinned host memory.

Pinned memory is costly to get, and so is kept for the next call of the same size.
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from phalanx.comm.base import Call, Communicator, Request
from phalanx.comm.buffers import Side, plan
from phalanx.comm.wrapped import WrappedCommunicator
from phalanx.errors import UsageError

#: Verbs that read what they write to.
_IN_PLACE = ("broadcast", "reduce", "allreduce")


@final
class StagedCommunicator(WrappedCommunicator):
    """Another communicator; what is in CPU memory goes to it as it is."""

    def __init__(self, inner: Communicator, *, everything: bool = False) -> None:
        """With `everything`, tensors in CPU memory are staged as well, to try out how it works."""
        super().__init__(inner)
        self._everything = everything
        self._rooms = Rooms()

    def run(self, call: Call) -> None:
        staged = self._stage(call)
        if staged is None:
            self._inner.run(call)
            return
        self._inner.run(staged.call)
        staged.finish()

    def start(self, call: Call) -> Request:
        staged = self._stage(call)
        if staged is None:
            return self._inner.start(call)
        return _Pending(self._inner.start(staged.call), staged)

    def wait_any(self, requests: Sequence[Request]) -> int:
        if not requests:
            raise UsageError("wait_any: give it one request of this communicator or more")
        theirs = [one.inner if isinstance(one, _Pending) else one for one in requests]
        index = self._inner.wait_any(theirs)
        requests[index].wait()
        return index

    def _stage(self, call: Call) -> "_Staged | None":
        if call.verb == "barrier":
            return None
        planned = plan(call, self.rank, size=self.size)
        sides = [side for side in (planned.send, planned.receive) if side is not None]
        if not self._everything and all(side.tensor.is_cpu for side in sides):
            return None
        return _Staged(call, planned.send, planned.receive, rooms=self._rooms)

    def free(self) -> None:
        self._rooms.clear()
        super().free()

    def _wrap(self, inner: Communicator) -> Communicator:
        return StagedCommunicator(inner, everything=self._everything)


class Rooms:
    """Host memory that is free for use, by its size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Tensor]] = {}
        self._pinned = torch.cuda.is_available()

    def take(self, like: Tensor) -> Tensor:
        """A host tensor of the same shape and type."""
        free = self._free.get(like.nbytes)
        room = free.pop() if free else self._make(like.nbytes)
        return room.view(like.dtype).view(like.shape)

    def _make(self, count: int) -> Tensor:
        # The host's whatever torch's default device is.
        return torch.empty(count, dtype=torch.uint8, device="cpu", pin_memory=self._pinned)

    def clear(self) -> None:
        """Give all of it back to the system."""
        self._free.clear()

    def give_back(self, tensor: Tensor) -> None:
        room = tensor.view(-1).view(torch.uint8)
        self._free.setdefault(room.numel(), []).append(room)


class _Staged:
    """A call with host memory in place of its buffers."""

    def __init__(
        self, call: Call, send: Side | None, receive: Side | None, *, rooms: Rooms
    ) -> None:
        self._rooms = rooms
        self._receive = None if receive is None else receive.tensor
        self._send_room = None if send is None else rooms.take(send.tensor)
        self._receive_room = None if receive is None else rooms.take(receive.tensor)
        if send is not None and self._send_room is not None:
            self._send_room.copy_(send.tensor)
        reads = call.verb in _IN_PLACE and send is None
        if reads and self._receive is not None and self._receive_room is not None:
            self._receive_room.copy_(self._receive)
        self.call = call._replace(send=self._send_room, receive=self._receive_room)

    def finish(self) -> None:
        """Put what was received where it belongs."""
        if self._receive is not None and self._receive_room is not None:
            self._receive.copy_(self._receive_room)
        for room in (self._send_room, self._receive_room):
            if room is not None:
                self._rooms.give_back(room)


@final
class _Pending(Request):
    def __init__(self, inner: Request, staged: _Staged) -> None:
        self.inner = inner
        self._staged: _Staged | None = staged

    def wait(self) -> None:
        self.inner.wait()
        self._finish()

    def test(self) -> bool:
        if not self.inner.test():
            return False
        self._finish()
        return True

    def _finish(self) -> None:
        if self._staged is not None:
            self._staged.finish()
            self._staged = None
