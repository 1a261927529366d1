"""DistributedOptimizers that are thrown away, and steps that are given up."""

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import phalanx.horovod.torch as hvd

pytestmark = pytest.mark.usefixtures("horovod")

#: Elements of a parameter: many are added up in memory that the ranks share.
_MANY = 50_000


def make_optimizer(parameters: list[nn.Parameter]) -> Any:
    return hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0))


def train(optimizer: Any, parameters: list[nn.Parameter]) -> None:
    optimizer.zero_grad()
    (torch.cat(tuple(parameters)).sum() * hvd.rank()).backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def mapped_bytes() -> int:
    """The bytes of shared memory that this process has mapped."""
    ranges = [
        line.split()[0].split("-")
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "memfd:phalanx" in line
    ]
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


@pytest.mark.ranks(2)
def test_the_memory_of_discarded_optimizers_goes() -> None:
    before = mapped_bytes()
    for _ in range(4):
        parameters = [nn.Parameter(torch.zeros(_MANY))]
        optimizer = make_optimizer(parameters)
        train(optimizer, parameters)
        assert hvd.rank() == 0 or parameters[0].any()
        del optimizer, parameters
        gc.collect()
        hvd.barrier()  # any operation tells the others
    assert mapped_bytes() == before


@pytest.mark.ranks(2)
def test_what_one_rank_discards_stays_until_all_do() -> None:
    parameters = [nn.Parameter(torch.zeros(_MANY))]
    before = mapped_bytes()
    optimizer = make_optimizer(parameters)
    train(optimizer, parameters)
    for gone in range(2):
        if hvd.rank() == gone:
            del optimizer
            gc.collect()
            parameters[0].grad = None
        hvd.barrier()
        assert (mapped_bytes() > before) == (gone == 0)


@pytest.mark.ranks(2)
def test_shutdown_lets_memory_go_though_the_optimizer_stays() -> None:
    before = mapped_bytes()
    parameters = [nn.Parameter(torch.zeros(_MANY))]
    optimizer = make_optimizer(parameters)
    train(optimizer, parameters)
    assert mapped_bytes() > before
    optimizer.zero_grad()
    hvd.shutdown()
    gc.collect()
    assert mapped_bytes() == before


@pytest.mark.ranks(2)
def test_a_discarded_optimizer_leaves_no_hooks() -> None:
    parameters = [nn.Parameter(torch.zeros(2))]
    first = make_optimizer(parameters)
    train(first, parameters)
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
    assert not parameters[0]._post_accumulate_grad_hooks
    second = make_optimizer(parameters)
    train(second, parameters)
    assert parameters[0].tolist() == [-1.0] * 2


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("length", [2, _MANY])
def test_a_step_that_is_given_up(length: int) -> None:
    """Some buckets have begun by then: the next step is not shifted by them."""
    parameters = [nn.Parameter(torch.zeros(length)) for _ in range(3)]
    plain = torch.optim.SGD(parameters, lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, groups=[[parameters[0]], [parameters[2]]])
    kept = optimizer.state_dict()
    train(optimizer, parameters)
    first = [parameter.detach().clone() for parameter in parameters]
    optimizer.zero_grad()
    parameters[2].sum().backward()  # type: ignore[no-untyped-call]
    optimizer.load_state_dict(kept)
    for number in range(2):
        optimizer.zero_grad()
        torch.stack([p.sum() * i for i, p in enumerate(parameters, 1)]).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        for index, (parameter, start) in enumerate(zip(parameters, first, strict=True), 1):
            torch.testing.assert_close(parameter.detach(), start - index * (number + 1))
