"""The communicator of an MPI job, over mpi4py. Importing this module starts MPI."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import final
from weakref import WeakSet

from mpi4py import MPI

from phalanx.comm import messages
from phalanx.comm.base import Call, Communicator, Request, Value
from phalanx.comm.buffers import Plan, label, plan
from phalanx.comm.messages import Message, Pending, Receiving, Started
from phalanx.comm.operations.large import operations
from phalanx.comm.operations.memory import whole
from phalanx.comm.operations.translation import Operation
from phalanx.comm.segments import unlink_segments
from phalanx.errors import UsageError

#: Those of this process that have not been freed: whoever waits in any of them for a rank that is
#: gone is released by revoking it.
_in_use: "WeakSet[MPICommunicator]" = WeakSet()


def open_world() -> "MPICommunicator":
    """Collective. All ranks of this job, apart from anyone else's messages."""
    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:  # this is one of those that `with_new` has started
        return MPICommunicator(parent.Merge(high=True))
    everyone = MPI.COMM_WORLD.Dup()
    unlink_segments()  # here every rank has mapped those of the others
    return MPICommunicator(everyone)


def revoke_all() -> None:
    """End, with an error on every rank, whatever is going on in the communicators of this one."""
    for comm in list(_in_use):
        comm.revoke()


@final
class MPICommunicator(Communicator):
    """The ranks of an mpi4py communicator, which this one owns and frees."""

    def __init__(self, mpi: MPI.Comm) -> None:
        self._mpi = mpi
        self.rank = mpi.Get_rank()
        self.size = mpi.Get_size()
        _in_use.add(self)

    def run(self, call: Call) -> None:
        planned = plan(call, self.rank, size=self.size)
        if call.verb == "send":
            messages.send(self._mpi, _message(call, planned))
            return
        if call.verb == "receive":
            messages.receive(self._mpi, _message(call, planned))
            return
        for operation in operations(call, planned, rank=self.rank, size=self.size):
            operation.run(self._mpi)

    def prepare(self, call: Call) -> Callable[[], None]:
        if call.verb in ("send", "receive"):
            return super().prepare(call)
        found = self._operations(call)
        if len(found) > 1:
            return partial(self.run, call)
        ((name, arguments),) = found
        method = getattr(self._mpi, name)

        def run(_kept: Call = call) -> None:  # for its buffers' sake
            method(*arguments)

        return run

    def _operations(self, call: Call) -> Sequence[Operation]:
        planned = plan(call, self.rank, size=self.size)
        return operations(call, planned, rank=self.rank, size=self.size)

    def prepare_start(self, call: Call) -> Callable[[], Request]:
        if call.verb in ("send", "receive"):
            return super().prepare_start(call)
        found = self._operations(call)
        return lambda: Started([one.start(self._mpi) for one in found], call)

    def start(self, call: Call) -> Request:
        planned = plan(call, self.rank, size=self.size)
        if call.verb == "send":
            return messages.start_sending(self._mpi, _message(call, planned))
        if call.verb == "receive":
            return Receiving(self._mpi, _message(call, planned))
        found = operations(call, planned, rank=self.rank, size=self.size)
        return Started([one.start(self._mpi) for one in found], call)

    def wait_any(self, requests: Sequence[Request]) -> int:
        ours = [request for request in requests if isinstance(request, Pending)]
        if not requests or len(ours) != len(requests):
            raise UsageError("wait_any: give it one request of this communicator or more")
        while True:
            for index, request in enumerate(ours):
                if request.test():
                    return index
            MPI.Request.Waitany([handle for request in ours for handle in request.handles()])

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
        _in_use.discard(self)
        self._mpi.Free()

    def revoke(self) -> None:
        """End whatever ranks do with each other here; only `survivors` can be asked for then."""
        _in_use.discard(self)
        if not self._mpi.Is_revoked():
            self._mpi.Revoke()

    def agree(self, wish: bool) -> bool:
        """Collective over the ranks that are left. Whether all wish it, and nobody is lost: the
        same on each, whoever is lost meanwhile, and also where all else has been revoked."""
        while True:
            try:
                return bool(self._mpi.Agree(int(wish)))
            except MPI.Exception:  # on all ranks alike: somebody is lost, of whom not all knew
                self._mpi.Ack_failed()
                wish = False

    def survivors(self) -> "tuple[MPICommunicator, list[int]]":
        """Collective over the ranks that are left: them, in their order, and who is missing."""
        left = self._mpi.Shrink()
        mine, theirs = self._mpi.Get_group(), left.Get_group()
        gone = MPI.Group.Difference(mine, theirs)
        lost = gone.Translate_ranks(None, mine) if gone.Get_size() else []
        for group in (mine, theirs, gone):
            group.Free()
        return MPICommunicator(left), sorted(lost)

    def with_new(self, count: int, command: Sequence[str]) -> "MPICommunicator | None":
        """Collective. These ranks and so many new ones, who run a command and call `open_world`;
        None if there can be none."""
        assert isinstance(self._mpi, MPI.Intracomm)
        program, *arguments = command
        try:
            new = self._mpi.Spawn(program, list(arguments), maxprocs=count)
            return MPICommunicator(new.Merge(high=False))
        except MPI.Exception:
            return None

    def abort(self, code: int) -> None:
        self._mpi.Abort(code)


def _message(call: Call, planned: Plan) -> Message:
    side = planned.send if call.verb == "send" else planned.receive
    described = whole(side)
    assert side is not None
    assert described is not None
    return Message(call, described, side.tensor.nbytes, label(side.tensor))
