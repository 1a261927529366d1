"""A communicator that counts the bytes it is given to send, to show what a strategy costs.

What MPI's algorithms make of them on the wire is their business: a sum over all ranks counts every
rank's buffer once, a broadcast its root's. Memory that ranks share is not sent, and so not counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from phalanx.comm.base import Array, Call, Communicator, Request, Value


@dataclass
class Traffic:
    """What this rank has sent so far."""

    bytes: int = 0


@final
class CountedCommunicator(Communicator):
    """Another communicator; those split off from it count together with it."""

    def __init__(self, inner: Communicator, traffic: Traffic) -> None:
        self._inner = inner
        self._traffic = traffic
        self.rank = inner.rank
        self.size = inner.size

    def run(self, call: Call) -> None:
        self._traffic.bytes += self._sent(call)
        self._inner.run(call)

    def prepare(self, call: Call) -> Callable[[], None]:
        run, sent = self._inner.prepare(call), self._sent(call)

        def counted() -> None:
            self._traffic.bytes += sent
            run()

        return counted

    def start(self, call: Call) -> Request:
        self._traffic.bytes += self._sent(call)
        return self._inner.start(call)

    def wait_any(self, requests: Sequence[Request]) -> int:
        return self._inner.wait_any(requests)

    def _sent(self, call: Call) -> int:
        """The bytes that this rank's part in a call hands over to others."""
        if self.size == 1 or call.verb in ("receive", "barrier"):
            return 0
        if call.verb in ("broadcast", "scatter") and call.root != self.rank:
            return 0
        if call.verb in ("reduce", "gather") and call.root == self.rank:
            return 0
        buffer = call.receive if call.send is None else call.send
        return _bytes(buffer)

    def broadcast_object(self, value: Value, root: int = 0) -> Value:
        return self._inner.broadcast_object(value, root)

    def gather_objects(self, value: Value, root: int = 0) -> list[Value] | None:
        return self._inner.gather_objects(value, root)

    def allgather_objects(self, value: Value) -> list[Value]:
        return self._inner.allgather_objects(value)

    def split(self, color: int, key: int = 0) -> Communicator:
        return CountedCommunicator(self._inner.split(color, key), self._traffic)

    def host(self) -> Communicator:
        return CountedCommunicator(self._inner.host(), self._traffic)

    def free(self) -> None:
        self._inner.free()

    def abort(self, code: int) -> None:
        self._inner.abort(code)


def _bytes(buffer: Array | None) -> int:
    return 0 if buffer is None else int(buffer.nbytes)
