"""What all tests share."""

import os
import signal
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from phalanx.comm.base import Communicator, Request
from phalanx.comm.single import SingleCommunicator
from tests.tiers import reason_to_skip

pytest_plugins = ["pytester", "tests.ranks", "tests.commands", "tests.job_commands"]


def pytest_configure(config: pytest.Config) -> None:
    # Some virtual machines announce AMX and trap on it, and torch then dies of bfloat16.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    # Whoever runs the tests in the background has them ignore these, and so all that they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if config.getoption("--ranks-worker"):
        torch.set_num_threads(1)  # the ranks share the cores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what makes no sense, and what two ranks show as well as one or four."""
    items[:] = [item for item in items if _makes_sense(item)]
    for item in items:
        reason = reason_to_skip(item)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def _makes_sense(item: pytest.Item) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    kind, ranks = parameters.get("kind"), parameters.get("ranks", 1)
    if kind == "single":
        return bool(ranks == 1)
    return kind not in ("distributed", "staged") or bool(ranks == 2)


@pytest.fixture(params=["single", "mpi", "checked", "distributed", "staged"])
def kind(request: pytest.FixtureRequest) -> str:
    """One of the communicators; tests are left out that have too many ranks for it."""
    return str(request.param)


@pytest.fixture
def world(request: pytest.FixtureRequest, kind: str) -> Communicator:
    """Collective. All ranks of the job, in a communicator of each kind."""
    if kind == "single":
        return SingleCommunicator()
    from tests.ranks import worker_of

    if kind == "distributed":
        return _over_gloo()
    comm = worker_of(request).open(checked=kind == "checked")
    if kind == "staged":
        from phalanx.comm.device.staged import StagedCommunicator

        return StagedCommunicator(comm, everything=True)
    return comm


@pytest.fixture
def over_gloo() -> Communicator:
    """Collective. All ranks of the job over torch.distributed, as those with GPUs are."""
    return _over_gloo()


@cache
def _over_gloo() -> Communicator:
    """Collective. One for all tests of a job: its ranks take a while to find each other."""
    from phalanx.comm.device.distributed import DistributedCommunicator
    from phalanx.comm.mpi import open_world

    return DistributedCommunicator(open_world(), torch.device("cpu"))


@pytest.fixture(params=["torch", "numpy"])
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes a tensor or array out of numbers."""
    if request.param == "numpy":
        return lambda values, dtype="float32": _array(values, dtype)
    return lambda values, dtype="float32": torch.tensor(values, dtype=getattr(torch, dtype))


def _array(values: Any, dtype: str) -> "np.ndarray[Any, Any]":
    if dtype == "bfloat16":
        pytest.skip("numpy has no bfloat16")
    return np.array(values, dtype=dtype)


@pytest.fixture(params=["blocking", "started"])
def do(request: pytest.FixtureRequest, world: Communicator) -> Callable[..., None]:
    """Carries out a verb, in its blocking or its non-blocking form."""
    started = request.param == "started"

    def call(verb: str, *args: Any, **kwargs: Any) -> None:
        if started:
            pending: Request = getattr(world, f"i{verb}")(*args, **kwargs)
            pending.wait()
            assert pending.test()
        else:
            getattr(world, verb)(*args, **kwargs)

    return call
