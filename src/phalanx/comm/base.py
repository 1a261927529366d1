"""What every communicator offers: MPI's verbs, on tensors and arrays, without copies.

Each verb is described once, as a `Call`. A communicator says how to `run` a call and how to `start`
one, and has all verbs, blocking and non-blocking, from there.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar

import numpy as np
import torch

Array = torch.Tensor | np.ndarray[Any, Any]
Op = Literal["sum", "product", "minimum", "maximum"]
Counts = Sequence[int]
Verb = Literal[
    "broadcast",
    "reduce",
    "allreduce",
    "reduce_scatter",
    "scatter",
    "gather",
    "allgather",
    "all_to_all",
    "send",
    "receive",
    "barrier",
]
Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")


class Call(NamedTuple):
    """One rank's part in one operation."""

    verb: Verb
    #: Where data is read, and where it is written. An operation in place has both in `receive`.
    send: Array | None = None
    receive: Array | None = None
    #: The root of a collective, or the other side of a `send` or `receive`.
    root: int | None = None
    op: Op | None = None
    #: Rows for each rank, where `send` or `receive` is cut; None for equal parts.
    send_counts: Counts | None = None
    receive_counts: Counts | None = None
    tag: int = 0


class Request(ABC):
    """An operation under way. It keeps its buffers alive, so hold on to it until it is done."""

    @abstractmethod
    def wait(self) -> None:
        """Return when the operation is done here: its buffers may then be read and written."""

    @abstractmethod
    def test(self) -> bool:
        """Whether the operation is done here. Also lets it make progress."""


Blocking = Callable[Concatenate["Communicator", Arguments], None]
Starting = Callable[Concatenate["Communicator", Arguments], Request]


def _verb(
    describe: Callable[Concatenate["Communicator", Arguments], Call],
) -> Blocking[Arguments]:
    """The method that runs the call that `describe` returns."""

    @wraps(describe)
    def run(self: "Communicator", /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        self.run(describe(self, *args, **kwargs))

    run.__annotations__["return"] = None
    return run


def _start(verb: Blocking[Arguments]) -> Starting[Arguments]:
    """The non-blocking form of a verb."""
    describe: Callable[..., Call] = inspect.unwrap(verb)

    def start(
        self: "Communicator", /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Request:
        return self.start(describe(self, *args, **kwargs))

    start.__name__ = f"i{describe.__name__}"
    start.__doc__ = f"{describe.__doc__}\n\nReturns at once; the Request tells when it is done."
    return start


class Communicator(ABC):
    """Some ranks that talk to each other.

    Buffers are contiguous CPU tensors or writable numpy arrays, and are used where they are. A
    buffer for several ranks is cut along its first dimension: into equal parts, or into `counts`
    rows for each rank, which then must be given on every rank. A part may have any shape of the
    right number of elements.
    """

    rank: int
    size: int
    #: Whether its tensors lie in host memory, of which the ranks of a host can share some.
    shares_memory: bool = True
    #: Whether what was started goes on by itself while this process computes.
    progresses: bool = False

    @abstractmethod
    def run(self, call: Call) -> None:
        """Carry out a call, and return when it is done on this rank."""

    @abstractmethod
    def start(self, call: Call) -> Request:
        """Begin a call, and return before it is done."""

    def prepare(self, call: Call) -> Callable[[], None]:
        """What runs a call as often as it is called: checked once, now, and the sooner done."""
        return partial(self.run, call)

    def prepare_start(self, call: Call) -> Callable[[], Request]:
        """The same for beginning a call; one must be over before the next begins."""
        return partial(self.start, call)

    @abstractmethod
    def wait_any(self, requests: Sequence[Request]) -> int:
        """Wait until one of these requests, all of this communicator's, is done; its index.

        Those that were found done before count too, so leave them out to wait for the others.
        """

    @_verb
    def broadcast(self, buffer: Array, root: int = 0) -> Call:
        """Collective. Copy the root's buffer into everybody's."""
        return Call("broadcast", receive=buffer, root=root)

    @_verb
    def reduce(self, buffer: Array, root: int = 0, *, op: Op = "sum") -> Call:
        """Collective. Combine all buffers into the root's; the others stay as they are."""
        return Call("reduce", receive=buffer, root=root, op=op)

    @_verb
    def allreduce(self, buffer: Array, op: Op = "sum", *, into: Array | None = None) -> Call:
        """Collective. Combine all buffers, into every rank's own, or into another one."""
        if into is None:
            return Call("allreduce", receive=buffer, op=op)
        return Call("allreduce", send=buffer, receive=into, op=op)

    @_verb
    def reduce_scatter(
        self, send: Array, receive: Array, *, op: Op = "sum", counts: Counts | None = None
    ) -> Call:
        """Collective. Combine all `send`; each rank receives its part of the result."""
        return Call("reduce_scatter", send, receive, op=op, send_counts=counts)

    @_verb
    def scatter(
        self, send: Array | None, receive: Array, root: int = 0, counts: Counts | None = None
    ) -> Call:
        """Collective. Cut the root's `send` into one part for each rank."""
        return Call("scatter", send, receive, root=root, send_counts=counts)

    @_verb
    def gather(
        self, send: Array, receive: Array | None, root: int = 0, counts: Counts | None = None
    ) -> Call:
        """Collective. Put everybody's `send` together in the root's `receive`, in rank order."""
        return Call("gather", send, receive, root=root, receive_counts=counts)

    @_verb
    def allgather(self, send: Array, receive: Array, *, counts: Counts | None = None) -> Call:
        """Collective. Put everybody's `send` together in every `receive`, in rank order."""
        return Call("allgather", send, receive, receive_counts=counts)

    @_verb
    def all_to_all(
        self,
        send: Array,
        receive: Array,
        *,
        send_counts: Counts | None = None,
        receive_counts: Counts | None = None,
    ) -> Call:
        """Collective. Part i of `send` goes to rank i; part i of `receive` comes from rank i."""
        return Call(
            "all_to_all", send, receive, send_counts=send_counts, receive_counts=receive_counts
        )

    @_verb
    def send(self, buffer: Array, to: int, *, tag: int = 0) -> Call:
        """Send to one rank; returns when the buffer may be changed again."""
        return Call("send", send=buffer, root=to, tag=tag)

    @_verb
    def receive(self, buffer: Array, source: int, *, tag: int = 0) -> Call:
        """Receive from one rank a message of exactly the buffer's size."""
        return Call("receive", receive=buffer, root=source, tag=tag)

    @_verb
    def barrier(self) -> Call:
        """Collective. Return when every rank has come here."""
        return Call("barrier")

    ibroadcast = _start(broadcast)
    ireduce = _start(reduce)
    iallreduce = _start(allreduce)
    ireduce_scatter = _start(reduce_scatter)
    iscatter = _start(scatter)
    igather = _start(gather)
    iallgather = _start(allgather)
    iall_to_all = _start(all_to_all)
    isend = _start(send)
    ireceive = _start(receive)
    ibarrier = _start(barrier)

    @abstractmethod
    def broadcast_object(self, value: Value, root: int = 0) -> Value:
        """Collective. The root's value, on every rank; pickled, so for small things."""

    @abstractmethod
    def gather_objects(self, value: Value, root: int = 0) -> list[Value] | None:
        """Collective. Everybody's value in rank order on the root, None elsewhere; pickled."""

    @abstractmethod
    def allgather_objects(self, value: Value) -> list[Value]:
        """Collective. Everybody's value in rank order, on every rank; pickled."""

    @abstractmethod
    def split(self, color: int, key: int = 0) -> "Communicator":
        """Collective. The ranks that gave the same color, ordered by key, then by rank."""

    @abstractmethod
    def host(self) -> "Communicator":
        """Collective. The ranks on this host, in rank order."""

    @abstractmethod
    def free(self) -> None:
        """Collective. Give the communicator back; it cannot be used any more."""

    @abstractmethod
    def abort(self, code: int) -> None:
        """End every process of the job with this exit code. Does not return."""
