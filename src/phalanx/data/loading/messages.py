"""Messages between a rank and a worker of its own: a kind, bytes, and at times an open file."""

import socket
import struct
from enum import IntEnum
from typing import NamedTuple

_HEADER = struct.Struct("=BQ")
_MOST_FILES = 1


class Kind(IntEnum):
    """What a message is about."""

    #: To a worker: what to read samples from, and which to read.
    SOURCE = 1
    JOB = 2
    #: From a worker: a batch, why there is none, and that it gets on with one.
    BATCH = 3
    ERROR = 4
    BEAT = 5


class Message(NamedTuple):
    """One message; whoever gets a file closes it."""

    kind: Kind
    body: bytes | bytearray
    file: int | None = None


def send(line: socket.socket, message: Message) -> None:
    """Send a whole message; an OSError if nobody is there."""
    data = _HEADER.pack(message.kind, len(message.body)) + message.body
    sent = 0 if message.file is None else socket.send_fds(line, [data], [message.file])
    line.sendall(memoryview(data)[sent:])


def receive(line: socket.socket) -> Message:
    """Wait for a whole message; an EOFError if there will be none."""
    header, files = bytearray(), list[int]()
    while len(header) < _HEADER.size:
        some, got, _flags, _address = socket.recv_fds(
            line, _HEADER.size - len(header), _MOST_FILES, socket.MSG_CMSG_CLOEXEC
        )
        if not some:
            raise EOFError
        header += some
        files += got
    kind, size = _HEADER.unpack(header)
    body = bytearray(size)
    rest = memoryview(body)
    while rest:
        count = line.recv_into(rest)
        if count == 0:
            raise EOFError
        rest = rest[count:]
    return Message(Kind(kind), body, files[0] if files else None)
