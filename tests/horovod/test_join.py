"""Ranks with less data than others."""

from typing import Any

import pytest
import torch

import phalanx.horovod.torch as hvd

pytestmark = pytest.mark.usefixtures("horovod")


@pytest.mark.ranks(1, 2, 3)
def test_joined_ranks_count_as_zeros() -> None:
    rank, size = hvd.rank(), hvd.size()
    for step in range(rank + 1):
        there = size - step  # ranks that are still here
        result = hvd.allreduce(torch.ones(2), name=f"{step}")
        torch.testing.assert_close(result, torch.full((2,), there / size))
        total = hvd.allreduce(torch.ones(2, dtype=torch.int64), name=f"s{step}", op=hvd.Sum)
        assert total.tolist() == [there] * 2
    assert hvd.join() == size - 1
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size
    assert hvd.join() in range(size)


@pytest.mark.ranks(2, 3)
def test_operations_without_a_name_go_on_afterwards() -> None:
    """Ranks that joined early have asked for fewer of them."""
    rank, size = hvd.rank(), hvd.size()
    for _ in range(2):
        for _ in range(1 + 2 * rank):
            hvd.allreduce(torch.ones(2))
        hvd.join()
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size] * 2
        assert hvd.allgather(torch.tensor([rank])).tolist() == list(range(size))


@pytest.mark.ranks(2, 3)
def test_all_ranks_hear_of_the_same_last_one() -> None:
    last = hvd.join()
    assert hvd.allgather(torch.tensor([last])).tolist() == [last] * hvd.size()


@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    "verb", ["allgather", "broadcast", "alltoall", "reducescatter", "allreduce"]
)
def test_operations_that_need_every_rank(verb: str) -> None:
    if hvd.rank() == 1:
        extras: dict[str, Any] = {"broadcast": {"root_rank": 1}, "allreduce": {"op": hvd.Max}}
        more = extras.get(verb, {})
        with pytest.raises(hvd.HorovodInternalError, match="rank 0 joined"):
            getattr(hvd, verb)(torch.ones(2), **more)
    assert hvd.join() == 1


@pytest.mark.ranks(2)
def test_join_with_something_under_way() -> None:
    handle = hvd.allreduce_async(torch.ones(1), name="x", op=hvd.Sum)
    hvd.join()
    assert hvd.poll(handle)
    assert hvd.synchronize(handle).item() == 2


#: Elements of a parameter: few are added up by MPI, many in the ranks' shared memory.
few_and_many = pytest.mark.parametrize("length", [3, 5000])


@pytest.mark.ranks(2, 3)
@few_and_many
def test_an_optimizer_goes_on_without_joined_ranks(length: int) -> None:
    """Uneven data: gradients of absent ranks are zeros, and the average is over all."""
    parameter = torch.nn.Parameter(torch.zeros(length))
    plain = torch.optim.SGD([parameter], lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, [("p", parameter)])
    rank, size = hvd.rank(), hvd.size()
    expected = 0.0
    for step in range(rank + 2):
        optimizer.zero_grad()
        parameter.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        expected -= sum(step < other + 2 for other in range(size)) / size
        torch.testing.assert_close(parameter.detach(), torch.full((length,), expected))
    assert hvd.join() == size - 1
    optimizer.zero_grad()
    parameter.sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    torch.testing.assert_close(parameter.detach(), torch.full((length,), expected - 1))


@pytest.mark.ranks(2)
@few_and_many
def test_a_rank_without_any_data(length: int) -> None:
    parameter = torch.nn.Parameter(torch.zeros(length))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    if hvd.rank() == 0:
        for _ in range(3):
            optimizer.zero_grad()
            parameter.sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        assert parameter.tolist() == [-1.5] * length
    assert hvd.join() == 0


@pytest.mark.ranks(2)
@few_and_many
def test_a_rank_whose_data_comes_later(length: int) -> None:
    """It had joined when the others agreed on what to exchange."""
    parameter = torch.nn.Parameter(torch.zeros(length))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    for epoch in range(2):
        for _ in range(0 if epoch == 0 and hvd.rank() == 1 else 2):
            optimizer.zero_grad()
            parameter.sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        hvd.join()
    assert parameter.tolist() == [-3.0 if hvd.rank() == 0 else -2.0] * length
