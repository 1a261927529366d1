"""The timeline is a trace that Chrome reads."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import phalanx.horovod.torch as hvd
from phalanx.errors import UsageError

pytestmark = pytest.mark.usefixtures("horovod")


def phases(events: list[dict[str, Any]], name: str) -> list[str]:
    """What a tensor went through, in order; every phase that began must have ended."""
    row = next(e["pid"] for e in events if e.get("args") == {"name": name})
    open_phases: list[str] = []
    began: list[str] = []
    last = 0.0
    for event in (e for e in events if e["pid"] == row and e["ph"] in "BE"):
        assert event["ts"] >= last
        last = event["ts"]
        if event["ph"] == "B":
            open_phases.append(event["name"])
            began.append(event["name"])
        else:
            open_phases.pop()
    assert not open_phases
    return began


@pytest.mark.ranks(1, 2)
def test_phases(shared_path: Path) -> None:
    path = shared_path / "timeline.json"
    hvd.start_timeline(str(path), mark_cycles=True)
    hvd.allreduce(torch.ones(2), name="x")
    hvd.grouped_allreduce([torch.ones(2), torch.ones(3)], name="g")
    hvd.allgather(torch.ones(2), name="y")
    hvd.synchronize(hvd.broadcast_async(torch.ones(2), 0, name="z"))
    hvd.stop_timeline()
    hvd.barrier()
    if hvd.rank() == 0:
        events = json.loads(path.read_text())
        assert phases(events, "allreduce.x") == [
            "NEGOTIATE_ALLREDUCE",
            "ALLREDUCE",
            "QUEUE",
            "MPI_ALLREDUCE",
        ]
        assert phases(events, "grouped_allreduce.g")[2:] == [
            "QUEUE",
            "MEMCPY_IN_FUSION_BUFFER",
            "MPI_ALLREDUCE",
            "MEMCPY_OUT_FUSION_BUFFER",
        ]
        assert phases(events, "allgather.y") == [
            "NEGOTIATE_ALLGATHER",
            "ALLGATHER",
            "QUEUE",
            "MPI_ALLGATHER",
        ]
        assert "MPI_BROADCAST" in phases(events, "broadcast.z")
        assert {e["name"] for e in events if e["ph"] == "i"} >= {"0", "CYCLE_START"}


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="timeline"):
        hvd.start_timeline(str(tmp_path / "missing" / "t.json"))


def test_the_environment_is_read_at_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hvd.shutdown()
    path = tmp_path / "t.json"
    monkeypatch.setenv("HOROVOD_TIMELINE", str(path))
    hvd.init()
    hvd.allreduce(torch.ones(1), name="x")
    hvd.shutdown()
    assert "MPI_ALLREDUCE" in phases(json.loads(path.read_text()), "allreduce.x")
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "soon")
    with pytest.raises(UsageError, match="HOROVOD_CYCLE_TIME=soon"):
        hvd.init()
    assert not hvd.is_initialized()


@pytest.mark.ranks(2)
def test_steps_of_an_optimizer(shared_path: Path) -> None:
    path = shared_path / "timeline.json"
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    hvd.start_timeline(str(path))
    for _ in range(2):
        parameter.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    hvd.stop_timeline()
    hvd.barrier()
    if hvd.rank() == 0:
        title = optimizer._distributed.title
        assert phases(json.loads(path.read_text()), title) == ["ALLREDUCE", "ALLREDUCE"]
