"""A communicator that does something to the calls of another one, and leaves the rest to it."""

from abc import abstractmethod

from phalanx.comm.base import Communicator, Value


class WrappedCommunicator(Communicator):
    """The ranks of another communicator, which is freed with this one."""

    def __init__(self, inner: Communicator) -> None:
        self._inner = inner
        self.rank = inner.rank
        self.size = inner.size
        self.shares_memory, self.progresses = inner.shares_memory, inner.progresses

    @abstractmethod
    def _wrap(self, inner: Communicator) -> Communicator:
        """Do the same to a communicator that was made from the other one."""

    def broadcast_object(self, value: Value, root: int = 0) -> Value:
        return self._inner.broadcast_object(value, root)

    def gather_objects(self, value: Value, root: int = 0) -> list[Value] | None:
        return self._inner.gather_objects(value, root)

    def allgather_objects(self, value: Value) -> list[Value]:
        return self._inner.allgather_objects(value)

    def split(self, color: int, key: int = 0) -> Communicator:
        return self._wrap(self._inner.split(color, key))

    def host(self) -> Communicator:
        return self._wrap(self._inner.host())

    def free(self) -> None:
        self._inner.free()

    def abort(self, code: int) -> None:
        self._inner.abort(code)
