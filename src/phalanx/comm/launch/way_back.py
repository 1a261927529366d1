"""Rank 0's ways back to its launcher, past mpiexec, which holds back what has no end of line, and
the launcher's way to rank 0, past mpiexec, which ends the ranks rather than asks them to end.

Each is a pipe of the launcher's. A rank on the same host opens it by its place in /proc; whatever
is at that place on another host, or in a PID namespace of the rank's own, is no such pipe: the
host's name, the device and the inode tell.
"""

import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import TextIO

#: What ranks find the pipes by; "0" where there is none.
_TERMINAL, _NOTES, _REQUESTS = "PHALANX_TERMINAL", "PHALANX_NOTES", "PHALANX_REQUESTS"
NO_PIPE = "0"


class Pipe:
    """The launcher's, open until `finish`; ranks write to it, or read what the launcher asks."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()

    @property
    def address(self) -> str:
        """What a rank opens it by."""
        status = os.fstat(self.writing)
        place = (os.getpid(), self.writing, status.st_dev, status.st_ino)
        return ":".join(map(str, (*place, socket.gethostname())))

    def read(self) -> bytes:
        """What was written since, as soon as there is something; nothing once all is read."""
        return os.read(self.reading, 1 << 16)

    def write(self, said: bytes) -> None:
        """Say something to whoever reads it."""
        os.write(self.writing, said)

    def finish(self) -> None:
        """No rank is there any more: what is read from now on has an end."""
        os.close(self.writing)

    def close(self) -> None:
        """After the last read."""
        os.close(self.reading)


class Notes:
    """What rank 0 tells its launcher, by name: the last of each counts."""

    def __init__(self) -> None:
        self.pipe = Pipe()
        self._told: dict[str, str] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._reader.start()

    def __getitem__(self, name: str) -> str:
        """Nothing if it was never told."""
        return self._told.get(name, "")

    def finish(self) -> None:
        """No rank is there any more."""
        self.pipe.finish()
        self._reader.join(timeout=1)  # a process that a rank has left behind may hold it open

    def _read(self) -> None:
        rest = b""
        while read := self.pipe.read():
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                name, _, text = line.decode(errors="surrogateescape").partition(" ")
                self._told[name] = text
        self.pipe.close()


def variables(*, terminal: Pipe | None, notes: Pipe, requests: Pipe) -> Mapping[str, str]:
    """What the ranks' environment has to say."""
    return {
        _TERMINAL: NO_PIPE if terminal is None else terminal.address,
        _NOTES: notes.address,
        _REQUESTS: requests.address,
    }


@cache
def launchers_terminal() -> TextIO | None:
    """The terminal of whoever launched this rank, to draw on; None where nobody watches.

    Opened once: what is written to it appears in that order.
    """
    writing = open_pipe(os.environ.get(_TERMINAL, NO_PIPE))
    if writing is None:
        return None
    here = sys.stdout
    return os.fdopen(writing, "w", encoding=here.encoding, errors=here.errors, newline="")


def tell_launcher(name: str, text: str) -> bool:
    """Tell the launcher what it, or a person, will want to know; whether there is one to listen."""
    writing = open_pipe(os.environ.get(_NOTES, NO_PIPE))
    if writing is None:
        return False
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(f"{name} {text}\n".encode(errors="surrogateescape"))
    return True


def requests_of_launcher() -> Callable[[], int]:
    """What returns a number that the launcher has sent since it was asked last; 0 if none."""
    reading = open_pipe(os.environ.get(_REQUESTS, NO_PIPE), os.O_RDONLY | os.O_NONBLOCK)
    if reading is None:
        return lambda: 0

    def ask() -> int:
        try:
            return (os.read(reading, 1) or b"\0")[0]
        except BlockingIOError:
            return 0

    return ask


def open_pipe(address: str, how: int = os.O_WRONLY) -> int | None:
    """In a rank: the pipe of this address; None if it is on another host, or gone."""
    if address == NO_PIPE:
        return None
    try:
        process, descriptor, device, inode, host = address.split(":", 4)
        path, wanted = f"/proc/{int(process)}/fd/{int(descriptor)}", (int(device), int(inode))
        if host != socket.gethostname() or _identity(os.stat(path)) != wanted:
            return None
        return os.open(path, how | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
