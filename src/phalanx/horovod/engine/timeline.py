"""What becomes of every tensor, as a trace that Chrome (chrome://tracing) and Perfetto show.

Each tensor is a row of its own: NEGOTIATE_ALLREDUCE until all ranks have asked for it, then
ALLREDUCE, with QUEUE, the copies in and out of the fusion buffer and MPI_ALLREDUCE inside.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO, final

from phalanx.errors import UsageError

_NOTHING: AbstractContextManager[None] = nullcontext()


@final
class Timeline:
    """The trace of one process; it records between `start` and `stop`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._file: TextIO | None = None
        self._began = 0.0
        self._rows: dict[str, int] = {}
        self._negotiating: set[str] = set()
        self._mark_cycles = False
        self._first = True

    @property
    def active(self) -> bool:
        """Whether it records."""
        return self._file is not None

    def start(self, path: str, *, mark_cycles: bool = False) -> None:
        """Record into a new file; it is complete after `stop`."""
        self.stop()
        try:
            file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"timeline {path}: {error.strerror}") from error
        with self._lock:
            self._file = file
            self._rows, self._negotiating, self._first = {}, set(), True
            self._mark_cycles = mark_cycles
            self._began = time.perf_counter()
            file.write("[\n")

    def stop(self) -> None:
        """Complete the file, if there is one."""
        with self._lock:
            if self._file is not None:
                self._file.write("\n]\n")
                self._file.close()
                self._file = None

    def negotiate(self, name: str, verb: str, *, rank: int, since: float | None) -> None:
        """A rank has asked for a tensor; `since`: when this one did."""
        if self._file is None:
            return
        if name not in self._negotiating:
            self._negotiating.add(name)
            self._event(name, "B", f"NEGOTIATE_{verb.upper()}", when=since)
        self._event(name, "i", str(rank), s="t")

    def negotiated(self, name: str) -> None:
        """All ranks have asked for a tensor, or it has failed."""
        if name in self._negotiating:
            self._negotiating.discard(name)
            self._event(name, "E")

    def begin(self, name: str, activity: str) -> None:
        """The tensor is in this activity until the next `end`."""
        if self._file is not None:
            self._event(name, "B", activity)

    def end(self, name: str) -> None:
        """The activity begun last is over."""
        if self._file is not None:
            self._event(name, "E")

    def during(self, names: list[str], activity: str) -> AbstractContextManager[None]:
        """All these tensors are in this activity inside."""
        return _NOTHING if self._file is None else self._during(names, activity)

    @contextmanager
    def _during(self, names: list[str], activity: str) -> Iterator[None]:
        for name in names:
            self.begin(name, activity)
        yield
        for name in names:
            self.end(name)

    def cycle(self) -> None:
        """A round of negotiation is over."""
        if self._mark_cycles and self._file is not None:
            self._write({"ph": "i", "name": "CYCLE_START", "pid": 0, "tid": 0, "s": "g"}, None)

    def _event(
        self,
        name: str,
        phase: str,
        label: str | None = None,
        *,
        when: float | None = None,
        **more: Any,
    ) -> None:
        with self._lock:
            self._name_row(name)
        event: dict[str, Any] = {"ph": phase, "pid": self._rows[name], "tid": 0, **more}
        if label is not None:
            event["name"] = label
        self._write(event, when)

    def _name_row(self, name: str) -> None:
        if name not in self._rows:
            self._rows[name] = len(self._rows) + 1
            row = {"pid": self._rows[name]}
            self._write({"ph": "M", "name": "process_name", **row, "args": {"name": name}}, None)
            self._write(
                {
                    "ph": "M",
                    "name": "process_sort_index",
                    **row,
                    "args": {"sort_index": row["pid"]},
                },
                None,
            )

    def _write(self, event: dict[str, Any], when: float | None) -> None:
        now = time.perf_counter() if when is None else max(when, self._began)
        event["ts"] = round((now - self._began) * 1e6, 1)
        with self._lock:
            if self._file is not None:
                self._file.write(("" if self._first else ",\n") + json.dumps(event))
                self._first = False
