"""A communicator that counts the bytes it is given to send, to show what a strategy costs.

What MPI's algorithms make of them on the wire is their business: a sum over all ranks counts every
rank's buffer once, a broadcast its root's. Memory that ranks share is not sent, and so not counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from phalanx.comm.base import Array, Call, Communicator, Request
from phalanx.comm.wrapped import WrappedCommunicator


@dataclass
class Traffic:
    """What this rank has sent so far."""

    bytes: int = 0


@final
class CountedCommunicator(WrappedCommunicator):
    """Another communicator; those split off from it count together with it."""

    def __init__(self, inner: Communicator, traffic: Traffic) -> None:
        super().__init__(inner)
        self._traffic = traffic

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

    def _wrap(self, inner: Communicator) -> Communicator:
        return CountedCommunicator(inner, self._traffic)


def _bytes(buffer: Array | None) -> int:
    return 0 if buffer is None else int(buffer.nbytes)
