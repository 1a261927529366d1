"""What all tests share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from phalanx.comm.base import Communicator, Request
from phalanx.comm.single import SingleCommunicator

pytest_plugins = ["pytester", "tests.ranks"]


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--ranks-worker"):
        torch.set_num_threads(1)  # the ranks share the cores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what makes no sense: a communicator of one rank in a job of several."""
    items[:] = [item for item in items if not _is_single_among_several(item)]


def _is_single_among_several(item: pytest.Item) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("kind") == "single" and parameters.get("ranks", 1) > 1


@pytest.fixture(params=["single", "mpi", "checked"])
def kind(request: pytest.FixtureRequest) -> str:
    """One of the communicators; tests are left out that have too many ranks for it."""
    return str(request.param)


@pytest.fixture
def world(request: pytest.FixtureRequest, kind: str) -> Communicator:
    """Collective. All ranks of the job, in a communicator of each kind."""
    if kind == "single":
        return SingleCommunicator()
    from tests.ranks import worker_of

    return worker_of(request).open(checked=kind == "checked")


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
