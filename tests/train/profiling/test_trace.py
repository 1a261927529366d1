"""A trace is on disk while it grows, is whole in the end, and can be read whatever ends it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from phalanx.clock import Event
from phalanx.comm.base import Call, Communicator, Request
from phalanx.comm.single import SingleCommunicator
from phalanx.comm.wrapped import WrappedCommunicator
from phalanx.train.profiling import trace
from phalanx.train.profiling.trace import TraceFile
from tests.commands import left_behind


def of_rank(events: list[dict[str, Any]], rank: int) -> list[str]:
    return [one["name"] for one in events if one["tid"] == rank and one["ph"] == "X"]


def torn(text: str) -> list[dict[str, Any]]:
    """The events in a file whose end is missing, as readers take it."""
    lines = text.splitlines()[1:]
    whole = [line.removesuffix(",") for line in lines[:-1]]
    return [json.loads(line) for line in whole]


def test_memory_is_bounded_and_the_file_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_EVENTS", 100)
    monkeypatch.setattr(trace, "_SECONDS", 1000.0)
    path = tmp_path / "new" / "trace.json"
    file, sizes, waiting = TraceFile(SingleCommunicator(), path), [], []
    for number in range(1000):
        file.add(Event('a "phase"', number, 0.5))
        sizes.append(path.stat().st_size)
        waiting.append(len(file._waiting))
    assert max(waiting) < 100
    assert len(set(sizes)) == 11
    assert len(torn(path.read_text())) == 1000  # but for the last one, and the name of the track
    file.finish()
    events = json.loads(path.read_text())
    assert of_rank(events, 0) == ['a "phase"'] * 1000
    assert events[-1] == {
        "ph": "X",
        "name": 'a "phase"',
        "pid": 0,
        "tid": 0,
        "ts": 999e6,
        "dur": 0.5e6,
    }


def test_one_that_is_begun_anew_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    """As it is after ranks were lost: whatever the first one still gets is not written."""
    comm, path = SingleCommunicator(), tmp_path / "trace.json"
    before = TraceFile(comm, path)
    before.add(Event("lost", 0.0, 1.0))
    before.abandon()
    after = TraceFile(comm, path)
    after.add(Event("kept", 0.0, 1.0))
    before.add(Event("late", 0.0, 1.0))
    before.flush()
    after.finish()
    assert of_rank(json.loads(path.read_text()), 0) == ["kept"]


class Apart(WrappedCommunicator):
    """Ranks that are on hosts of their own."""

    def host(self) -> Communicator:
        return self._inner.split(self.rank)

    def run(self, call: Call) -> None:
        self._inner.run(call)

    def start(self, call: Call) -> Request:
        return self._inner.start(call)

    def wait_any(self, requests: Sequence[Request]) -> int:
        return self._inner.wait_any(requests)

    def _wrap(self, inner: Communicator) -> Communicator:
        return Apart(inner)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("apart", [False, True])
def test_all_ranks_are_in_one_file(comm: Communicator, shared_path: Path, apart: bool) -> None:
    path = shared_path / "trace.json"
    if comm.rank == 0:
        path.write_text("something older")
    file = TraceFile(Apart(comm) if apart else comm, path)
    for number in range(1000):
        file.add(Event(f"phase {number}", number, 0.5))
    file.flush()
    comm.barrier()
    own = [path.with_name(f"trace.json.rank-{rank}") for rank in (1, 2)]
    assert [one.exists() for one in own] == [apart, apart]
    for one in own if apart else []:
        assert len(torn(one.read_text())) == 1000
    comm.barrier()
    file.finish()
    comm.barrier()
    events = json.loads(path.read_text())
    for rank in range(3):
        assert of_rank(events, rank) == [f"phase {number}" for number in range(1000)]
    names = [one["args"]["name"] for one in events if one["ph"] == "M"]
    assert sorted(names) == ["rank 0", "rank 1", "rank 2"]
    assert sorted(shared_path.glob("trace.json*")) == [path]


def test_a_full_disk_is_told_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = TraceFile(SingleCommunicator(), tmp_path / "trace.json")

    def no_space(_descriptor: int, _content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", no_space)
    for _ in range(5000):
        file.add(Event("phase", 0.0, 0.0))
    with pytest.raises(OSError, match="No space left"):
        file.finish()


def test_a_killed_training_leaves_what_was_done(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    endless = ("--dataset", "iris", "--model", "mlp", "--epochs", "1000000")
    process = start("train", *endless, "--ranks", "2", "--trace", path)
    deadline = time.monotonic() + 240
    while not has_both(path):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert left_behind(tmp_path) == []
    events = torn(path.read_text())
    for rank in (0, 1):
        assert {"load", "forward", "backward"} <= set(of_rank(events, rank))


def has_both(path: Path) -> bool:
    events = torn(path.read_text()) if path.exists() and path.stat().st_size > 100 else []
    return all("backward" in of_rank(events, rank) for rank in (0, 1))
