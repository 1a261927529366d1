"""Operations that wait for a rank which does not come."""

import logging
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import phalanx.horovod.torch as hvd
from phalanx.comm.launch.mpiexec import mpiexec_command
from tests.commands import PATIENCE
from tests.ranks import worker_of


@pytest.fixture
def impatient(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.LogCaptureFixture]:
    """Collective. Horovod's interface with a short stall time, and what it logs."""
    monkeypatch.setenv("HOROVOD_STALL_CHECK_TIME_SECONDS", "0.2")
    hvd.init(worker_of(request).open())
    yield request.getfixturevalue("caplog")
    hvd.shutdown()


def wait_for(caplog: pytest.LogCaptureFixture, text: str) -> str:
    while text not in caplog.text:
        time.sleep(0.01)
    return next(r.getMessage() for r in caplog.records if text in r.getMessage())


@pytest.mark.ranks(3)
def test_missing_ranks_are_named(impatient: pytest.LogCaptureFixture) -> None:
    """Rank 1 asks for nothing at all, and so is in no round."""
    handle = None
    if hvd.rank() != 1:
        handle = hvd.allreduce_async(torch.ones(1), name="x", op=hvd.Sum)
    if hvd.rank() == 0:
        said = wait_for(impatient, "allreduce.x")
        assert "for rank 1; ranks 0, 2 asked for it" in said
    _meet_outside()
    if handle is None:
        handle = hvd.allreduce_async(torch.ones(1), name="x", op=hvd.Sum)
    assert hvd.synchronize(handle).item() == 3


@pytest.mark.ranks(2)
def test_ranks_that_ask_for_something_else_are_named(impatient: pytest.LogCaptureFixture) -> None:
    handle = hvd.allreduce_async(torch.ones(1), name="ab"[hvd.rank()])
    name = "ab"[hvd.rank()]
    said = wait_for(impatient, f"allreduce.{name}")
    assert f"allreduce.{name} waits since" in said
    assert f"for rank {1 - hvd.rank()}; rank {hvd.rank()} asked for it" in said
    _meet_outside()
    other = hvd.allreduce_async(torch.ones(1), name="ba"[hvd.rank()])
    assert (hvd.synchronize(handle).item(), hvd.synchronize(other).item()) == (1, 1)


@pytest.mark.ranks(2)
def test_an_optimizer_that_waits(impatient: pytest.LogCaptureFixture, shared_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))

    def step() -> None:
        optimizer.zero_grad()
        parameter.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def tell(record: logging.LogRecord) -> bool:
        if re.search("waits since .* for rank 1", record.getMessage()):
            (shared_path / "said").touch()
        return True

    step()
    if hvd.rank() == 0:
        impatient.handler.addFilter(tell)
    else:
        while not (shared_path / "said").exists():
            time.sleep(0.01)
    step()
    impatient.handler.removeFilter(tell)
    assert parameter.tolist() == [-2.0] * 2


PROGRAM = """
import logging, sys, time, torch
import phalanx.horovod.torch as hvd
hvd.init()
if hvd.rank() == 0:
    hvd.allreduce(torch.ones(1), name="x")
time.sleep(60)
"""


def test_the_job_ends_if_asked_to() -> None:
    command, environment = mpiexec_command(2, bind=False)
    environment |= {
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "0.2",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "0.4",
    }
    run = [*command, sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        run, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode != 0
    assert "allreduce.x waits since" in done.stderr
    assert "for rank 1; rank 0 asked for it" in done.stderr


def _meet_outside() -> None:
    """Collective. A barrier that the engine knows nothing of, and that MPI moves in the wait."""
    from mpi4py import MPI

    barrier = MPI.COMM_WORLD.Ibarrier()
    while not barrier.Test():
        time.sleep(0.001)
