"""A communicator whose non-blocking sums begin under switches of MPI's that others do not see.

Open MPI's switches hold for a whole process, and MPI itself sums over ranks when communicators are
made. Ranks that differ in such a switch would wait for each other for good, so it is set for as
long as it takes to begin a sum, and no longer.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import final

from phalanx.comm.base import Call, Communicator, Request
from phalanx.comm.wrapped import WrappedCommunicator


@final
class TunedCommunicator(WrappedCommunicator):
    """Another communicator, which is freed with this one."""

    def __init__(
        self, inner: Communicator, switched: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Inside of what `switched` gives, MPI's switches are set."""
        super().__init__(inner)
        self._switched = switched

    def run(self, call: Call) -> None:
        self._inner.run(call)

    def start(self, call: Call) -> Request:
        if call.verb != "allreduce":
            return self._inner.start(call)
        with self._switched():
            return self._inner.start(call)

    def prepare_start(self, call: Call) -> Callable[[], Request]:
        begin = self._inner.prepare_start(call)
        if call.verb != "allreduce":
            return begin

        def started() -> Request:
            with self._switched():
                return begin()

        return started

    def wait_any(self, requests: Sequence[Request]) -> int:
        return self._inner.wait_any(requests)

    def _wrap(self, inner: Communicator) -> Communicator:
        return TunedCommunicator(inner, self._switched)
