"""Messages from one rank to another, of exactly the size that the other expects.

Open MPI 5 writes past the end of a buffer before it reports that a message was too long for it. So
no message may meet a buffer of another size. Each travels under a tag that depends on its size, and
after a note that says it: a receive is posted at once, as MPI's rules for its progress want it, and
a message that does not fit is still noticed, received elsewhere and reported.
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, final

from mpi4py import MPI

from phalanx.comm.base import Call, Request
from phalanx.errors import MismatchError, UsageError

#: The tags that callers may use, and what sizes are told apart by within MPI's own.
_LARGEST_TAG: int = MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) or 32767
_TAGS = min(1 << 16, (_LARGEST_TAG + 1) // 2)
_SIZES = min(32749, (_LARGEST_TAG + 1) // _TAGS - 1)
_NOTE_BYTES = 8


class Message(NamedTuple):
    """One side of a message: how mpi4py describes its buffer, and how messages of ours do."""

    call: Call
    buffer: list[Any]
    size: int
    label: str

    @property
    def other(self) -> int:
        """The rank on the other side."""
        assert self.call.root is not None
        return self.call.root

    @property
    def tag(self) -> int:
        if not 0 <= self.call.tag < _TAGS:
            raise UsageError(
                f"{self.call.verb}: a tag is from 0 to {_TAGS - 1}, not {self.call.tag}"
            )
        return self.call.tag

    def tag_for(self, size: int) -> int:
        """The tag of what comes after a note."""
        return (1 + size % _SIZES) * _TAGS + self.tag


class Pending(Request):
    """What MPI has under way for a call."""

    @abstractmethod
    def handles(self) -> list[MPI.Request]:
        """What is not done of it."""


@final
class Started(Pending):
    """An operation, or several that are one."""

    def __init__(self, handles: Sequence[MPI.Request], kept: object) -> None:
        self._handles = list(handles)
        self._kept = kept  # for its buffers' sake

    def wait(self) -> None:
        for handle in self._handles:
            handle.Wait()

    def test(self) -> bool:
        return all([handle.Test() for handle in self._handles])

    def handles(self) -> list[MPI.Request]:
        return _not_done(self._handles)


def send(mpi: MPI.Comm, message: Message) -> None:
    """Send a note and a message; returns when the buffer may be changed again."""
    note = _note(message.size)
    noted = mpi.Isend([note, MPI.BYTE], message.other, message.tag)
    mpi.Send(message.buffer, message.other, message.tag_for(message.size))
    noted.Wait()


def start_sending(mpi: MPI.Comm, message: Message) -> Pending:
    """The same; returns at once."""
    note = _note(message.size)
    noted = mpi.Isend([note, MPI.BYTE], message.other, message.tag)
    sent = mpi.Isend(message.buffer, message.other, message.tag_for(message.size))
    return Started([noted, sent], (note, message))


def receive(mpi: MPI.Comm, message: Message) -> None:
    """Receive a message, or raise if it is of another size."""
    note = bytearray(_NOTE_BYTES)
    mpi.Recv([note, MPI.BYTE], message.other, message.tag)
    size = int.from_bytes(note, "little")
    if size != message.size:
        _throw_away(mpi, message, size)
        raise _mismatch(mpi, message, size)
    mpi.Recv(message.buffer, message.other, message.tag_for(size))


@final
class Receiving(Pending):
    """A note and a message that are to come."""

    def __init__(self, mpi: MPI.Comm, message: Message) -> None:
        self._mpi, self._message = mpi, message
        self._note = bytearray(_NOTE_BYTES)
        self._noted = mpi.Irecv([self._note, MPI.BYTE], message.other, message.tag)
        tag = message.tag_for(message.size)
        self._received = mpi.Irecv(message.buffer, message.other, tag)
        self._error: MismatchError | None = None

    def wait(self) -> None:
        self._noted.Wait()
        self._check()
        self._received.Wait()

    def test(self) -> bool:
        if not self._noted.Test():
            return False
        self._check()
        return self._received.Test()

    def handles(self) -> list[MPI.Request]:
        # Nothing is known of the message before its note is there.
        return _not_done([self._noted]) or _not_done([self._received])

    def _check(self) -> None:
        size = int.from_bytes(self._note, "little")
        if size == self._message.size:
            return
        if self._error is None:
            self._error = _mismatch(self._mpi, self._message, size)
            self._received.Cancel()
            with suppress(MPI.Exception):  # of a message that the buffer is too short for
                self._received.Wait()
            _throw_away(self._mpi, self._message, size)
        raise self._error


def _note(size: int) -> bytearray:
    return bytearray(size.to_bytes(_NOTE_BYTES, "little"))


def _throw_away(mpi: MPI.Comm, message: Message, size: int) -> None:
    """Receive what does not fit elsewhere, so that what comes after it can be received."""
    tag = message.tag_for(size)
    if tag != message.tag_for(message.size) or mpi.Iprobe(message.other, tag):
        mpi.Recv([bytearray(size), MPI.BYTE], message.other, tag)


def _mismatch(mpi: MPI.Comm, message: Message, size: int) -> MismatchError:
    return MismatchError(
        f"receive: rank {message.other} sent {size} bytes, rank {mpi.rank} "
        f"expects the {message.size} of {message.label}"
    )


def _not_done(handles: Sequence[MPI.Request]) -> list[MPI.Request]:
    return [handle for handle in handles if handle != MPI.REQUEST_NULL]
