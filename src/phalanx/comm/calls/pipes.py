"""The pipes between who calls a function on ranks and these ranks.

They are the caller's, who has no other way past mpiexec: it gives what it reads to rank 0 alone,
closes what a child would inherit, and holds back what has no end of line. A rank opens them by
their place in /proc, as in `way_back`.
"""

import fcntl
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from select import PIPE_BUF
from threading import Lock
from typing import NamedTuple, final

from phalanx.comm.launch.way_back import NO_PIPE, Pipe, open_pipe
from phalanx.errors import LaunchError

_VARIABLE = "PHALANX_CALL"
#: Before the bytes of a call: how many there are.
_LENGTH = struct.Struct("=Q")
#: Before each piece of an answer: whose it is, whether it is the last one, and its length. Pieces
#: are no longer than what a pipe takes at once, so that those of many ranks stay whole.
_PIECE = struct.Struct("=I?H")
#: How many bytes a pipe should hold, so that readers and writers seldom wait for each other.
_ROOM = 1 << 20


class Answer(NamedTuple):
    """What a rank has sent back."""

    rank: int
    content: bytearray


@final
class CallerPipes:
    """The caller's ends. Each rank is sent the same call; with `shows` they also write what they
    print to here, past mpiexec."""

    def __init__(self, call: bytes, *, ranks: int, shows: bool) -> None:
        self.call, self.answers, self.output, self.errors = (Pipe() for _ in range(4))
        self._shows = shows
        #: What is left to write of the call, for each rank.
        self._copies = [memoryview(_LENGTH.pack(len(call)) + call)] * ranks
        self._unread = bytearray()
        self._pieces: dict[int, bytearray] = {}
        os.set_blocking(self.call.writing, False)
        for pipe in (self.answers, self.output, self.errors):
            os.set_blocking(pipe.reading, False)
        for pipe in (self.call, self.answers):
            with suppress(OSError):  # this user may have no more of it
                fcntl.fcntl(pipe.writing, fcntl.F_SETPIPE_SZ, _ROOM)

    def variables(self) -> Mapping[str, str]:
        """What the ranks' environment has to say."""
        shown = [pipe.address if self._shows else NO_PIPE for pipe in (self.output, self.errors)]
        return {_VARIABLE: " ".join([self.call.address, self.answers.address, *shown])}

    def send(self) -> bool:
        """Write as much of the call as there is room for; whether there is more of it."""
        while self._copies:
            try:
                written = os.write(self.call.writing, self._copies[0])
            except BlockingIOError:
                break
            rest = self._copies[0][written:]
            self._copies[:1] = [rest] if rest else []
        return bool(self._copies)

    def receive(self, read: bytes) -> Iterator[Answer]:
        """The answers that are complete with these bytes, the next ones that were read."""
        self._unread += read
        start = 0
        while len(self._unread) >= start + _PIECE.size:
            rank, is_last, length = _PIECE.unpack_from(self._unread, start)
            end = start + _PIECE.size + length
            if end > len(self._unread):
                break
            self._pieces.setdefault(rank, bytearray()).extend(
                self._unread[start + _PIECE.size : end]
            )
            start = end
            if is_last:
                yield Answer(rank, self._pieces.pop(rank))
        del self._unread[:start]

    def close(self) -> None:
        """No rank is there any more."""
        for pipe in (self.call, self.answers, self.output, self.errors):
            pipe.finish()
            pipe.close()


def read_some(reading: int) -> bytes:
    """What there is to read; nothing if there is nothing now."""
    try:
        return os.read(reading, _ROOM)
    except BlockingIOError:
        return b""


@final
class RankPipes:
    """A rank's ends."""

    def __init__(self) -> None:
        call, answers, *shown = os.environ[_VARIABLE].split(" ")
        self._call, self._answers = _opened(call, os.O_RDONLY), _opened(answers)
        self._shown = [] if NO_PIPE in shown else [_opened(one) for one in shown]
        self._lock = Lock()

    @property
    def shows(self) -> bool:
        """Whether what this rank prints goes to the caller by itself."""
        return bool(self._shown)

    def show(self) -> None:
        """From now on standard output and standard error are the caller's."""
        for descriptor, opened in enumerate(self._shown, start=1):
            os.dup(descriptor)  # stays open: mpiexec makes a fuss of ranks that close theirs
            os.dup2(opened, descriptor)
            os.close(opened)

    def read_call(self) -> bytes:
        """The call; ranks read it one after the other, a copy each."""
        with os.fdopen(self._call, "rb", buffering=0) as pipe:
            fcntl.flock(pipe, fcntl.LOCK_EX)
            (length,) = _LENGTH.unpack(_read(pipe.fileno(), _LENGTH.size))
            return _read(pipe.fileno(), length)  # which also ends the lock

    def answer(self, rank: int, content: bytes) -> None:
        """Send something back, whole."""
        most = PIPE_BUF - _PIECE.size
        with self._lock:
            for start in range(0, len(content), most):
                piece = content[start : start + most]
                is_last = start + most >= len(content)
                os.write(self._answers, _PIECE.pack(rank, is_last, len(piece)) + piece)


def _opened(address: str, how: int = os.O_WRONLY) -> int:
    opened = open_pipe(address, how)
    if opened is None:
        raise LaunchError(
            "this rank cannot reach the process that called the function: a function is called on "
            "ranks of the same host and user; on several hosts, start the script with `phalanx run`"
        )
    return opened


def _read(descriptor: int, length: int) -> bytes:
    read = bytearray()
    while len(read) < length:
        piece = os.read(descriptor, min(_ROOM, length - len(read)))
        if not piece:
            raise LaunchError("the process that called the function is gone")
        read += piece
    return bytes(read)
