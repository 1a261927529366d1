"""The communicator of one process alone: every verb is a copy, or nothing. MPI is never loaded."""

import os
from collections.abc import Sequence
from typing import final

from phalanx.comm.base import Call, Communicator, Request, Value
from phalanx.comm.buffers import plan
from phalanx.errors import UsageError


@final
class SingleCommunicator(Communicator):
    """One rank."""

    rank = 0
    size = 1

    def run(self, call: Call) -> None:
        if call.verb in ("send", "receive"):
            raise UsageError(f"{call.verb}: a single rank has nobody to talk to")
        planned = plan(call, 0, size=1)
        if planned.send is not None and planned.receive is not None:
            planned.receive.tensor.view(-1).copy_(planned.send.tensor.view(-1))

    def start(self, call: Call) -> Request:
        self.run(call)
        return _Done()

    def wait_any(self, requests: Sequence[Request]) -> int:
        if not requests:
            raise UsageError("wait_any: give it one request of this communicator or more")
        return 0

    def broadcast_object(self, value: Value, root: int = 0) -> Value:
        return value

    def gather_objects(self, value: Value, root: int = 0) -> list[Value]:
        return [value]

    def allgather_objects(self, value: Value) -> list[Value]:
        return [value]

    def split(self, color: int, key: int = 0) -> Communicator:
        return SingleCommunicator()

    def host(self) -> Communicator:
        return SingleCommunicator()

    def free(self) -> None:
        pass

    def abort(self, code: int) -> None:
        os._exit(code)


@final
class _Done(Request):
    def wait(self) -> None:
        pass

    def test(self) -> bool:
        return True
