"""The trace of a training, written as it grows: the phases of every rank in one file.

The file is a JSON array of events, of which readers (ui.perfetto.dev, chrome://tracing) do not miss
the end: whatever ends a training, what there is of it can be looked at. Ranks on the first one's
host append to the file in whole pieces, which the kernel keeps apart. Ranks on other hosts, whose
file systems promise no such thing, have files of their own (`FILE.rank-3`) until the end.
"""

import atexit
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import final

import torch

from phalanx.clock import Event
from phalanx.comm.base import Communicator

#: A rank keeps so many events, or those of so many seconds, before it writes them.
_EVENTS, _SECONDS = 2_000, 1.0
#: Bytes that one rank of another host sends at a time, in the end.
_PIECE = 1 << 20
_BEGIN, _BETWEEN, _END = "[\n", ",\n", "\n]\n"


@final
class TraceFile:
    """One rank's part in it."""

    def __init__(self, comm: Communicator, path: Path) -> None:
        """Collective. Begin a new file, instead of one that is there; an OSError says why not."""
        self._comm, self.path = comm, path
        self._waiting: list[str] = []
        self._names: dict[str, str] = {}
        self._written = time.perf_counter()
        self._failure: OSError | None = None
        self._descriptor: int | None = None
        self._part = path.with_name(f"{path.name}.rank-{comm.rank}")
        identity = comm.broadcast_object(self._begin(path) if comm.rank == 0 else None)
        host = comm.host()
        self._has_part = 0 not in host.allgather_objects(comm.rank)
        host.free()
        if comm.rank > 0:
            self._join(identity)
        elif self._failure is not None:
            raise self._failure
        atexit.register(self.flush)

    def add(self, event: Event) -> None:
        """One more event, to be written soon."""
        name = self._names.get(event.name)
        if name is None:
            name = self._names[event.name] = json.dumps(event.name)
        start, duration = round(event.start * 1e6, 3), round(event.duration * 1e6, 3)
        self._waiting.append(
            f'{{"ph": "X", "name": {name}, "pid": 0, "tid": {self._comm.rank}, '
            f'"ts": {start}, "dur": {duration}}}'
        )
        if len(self._waiting) >= _EVENTS or time.perf_counter() - self._written > _SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        waiting, self._waiting = self._waiting, []
        self._written = time.perf_counter()
        if waiting:
            self._append((_BETWEEN + _BETWEEN.join(waiting)).encode())

    def finish(self) -> None:
        """Collective. Put everything together; if something was not written, rank 0 raises it."""
        atexit.unregister(self.flush)
        self.flush()
        ranks = self._comm.allgather_objects(self._has_part)
        for rank in (one for one, has_part in enumerate(ranks) if has_part):
            self._bring(rank)
        failures = [one for one in self._comm.allgather_objects(self._failure) if one is not None]
        if self._comm.rank == 0:
            self._append(_END.encode())
        self._close()
        if failures and self._comm.rank == 0:
            raise failures[0]

    def abandon(self) -> None:
        """Write no more: ranks were lost, and those that are left begin anew."""
        atexit.unregister(self.flush)
        self._close()

    def _begin(self, path: Path) -> tuple[int, int] | None:
        """On the first rank: the file, by what nobody else's has; None if there can be none."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o666)
            self._append((_BEGIN + self._own_name()).encode())
            found = os.fstat(self._descriptor)
        except OSError as error:
            self._failure = error
            return None
        return found.st_dev, found.st_ino

    def _join(self, identity: tuple[int, int] | None) -> None:
        """On another rank: the same file, if this is its host and it is the same here."""
        if identity is None:
            self._has_part = False
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        with suppress(OSError):
            if not self._has_part:
                found = self.path.stat()
                self._has_part = (found.st_dev, found.st_ino) != identity
            if not self._has_part:
                self._descriptor = os.open(self.path, flags)
                self._append((_BETWEEN + self._own_name()).encode())
                return
        self._has_part = True
        try:
            self._part.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._part, flags | os.O_CREAT | os.O_TRUNC, 0o666)
            self._append((_BEGIN + self._own_name()).encode())
        except OSError as error:
            self._failure = error

    def _own_name(self) -> str:
        """The event that names this rank. It begins a file in one piece with the bracket: whoever
        appends to that comes after an event."""
        return _event("M", "thread_name", self._comm.rank, args={"name": f"rank {self._comm.rank}"})

    def _append(self, content: bytes) -> None:
        """One whole piece; after a failure, no more."""
        if self._descriptor is None or self._failure is not None:
            return
        try:
            while content:
                content = content[os.write(self._descriptor, content) :]
        except OSError as error:
            self._failure = error

    def _bring(self, rank: int) -> None:
        """Collective. Have the first rank append what another one has in a file of its own."""
        if self._comm.rank == 0:
            self._append(_BETWEEN.encode())
            while len(piece := self._received(rank)):
                self._append(piece)
        elif self._comm.rank == rank:
            self._send_part()
            self._part.unlink(missing_ok=True)

    def _received(self, rank: int) -> bytes:
        size = torch.zeros(1, dtype=torch.int64)
        self._comm.receive(size, rank)
        piece = torch.zeros(int(size), dtype=torch.uint8)
        if len(piece):
            self._comm.receive(piece, rank)
        return piece.numpy().tobytes()

    def _send_part(self) -> None:
        """All of this rank's file but its first bracket, and then nothing."""
        with suppress(OSError), self._part.open("rb") as file:
            file.seek(len(_BEGIN))
            while content := file.read(_PIECE):
                piece = torch.frombuffer(bytearray(content), dtype=torch.uint8)
                self._comm.send(torch.tensor([len(piece)]), 0)
                self._comm.send(piece, 0)
        self._comm.send(torch.zeros(1, dtype=torch.int64), 0)

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _event(kind: str, name: str, rank: int, **more: object) -> str:
    return json.dumps({"ph": kind, "name": name, "pid": 0, "tid": rank, **more})
