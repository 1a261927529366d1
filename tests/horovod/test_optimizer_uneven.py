"""DistributedOptimizer where ranks, parameters or calls are not all alike."""

import pytest
import torch
from torch import nn

import phalanx.horovod.torch as hvd
from phalanx.errors import UsageError

pytestmark = pytest.mark.usefixtures("horovod")


@pytest.mark.ranks(2, 3)
def test_a_parameter_that_one_rank_does_not_use() -> None:
    parameters = [nn.Parameter(torch.zeros(2)) for _ in range(3)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0))
    for step in range(3):
        optimizer.zero_grad()
        used = parameters[:2] if hvd.rank() == step % hvd.size() else parameters[:1]
        torch.cat(list(used)).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert parameters[0].tolist() == [-3.0] * 2
    torch.testing.assert_close(parameters[1].detach(), torch.full((2,), -3.0 / hvd.size()))
    assert parameters[2].grad is not None
    assert parameters[2].tolist() == [0.0] * 2


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("as_dense", [False, True])
def test_sparse_gradients(as_dense: bool) -> None:
    """Rows of an embedding; in the second step rank 0 does not use it at all."""
    torch.manual_seed(0)
    table, bias = nn.Embedding(6, 2, sparse=True), nn.Parameter(torch.zeros(2))
    before = table.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([*table.parameters(), bias], lr=1.0), sparse_as_dense=as_dense
    )
    for step in range(2):
        optimizer.zero_grad()
        loss = bias.sum()
        if step == 0 or hvd.rank() > 0:
            loss = loss + table(torch.tensor([hvd.rank(), 5])).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    expected = before.clone()
    expected[5] -= 1 + (hvd.size() - 1) / hvd.size()
    expected[: hvd.size()] -= 2 / hvd.size()
    expected[0] += 1 / hvd.size()
    torch.testing.assert_close(table.weight.detach(), expected)
    assert bias.tolist() == [-2.0] * 2
    assert table.weight.grad is not None
    assert table.weight.grad.is_sparse


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("as_dense", [False, True])
def test_an_optimizer_that_takes_only_sparse_gradients(as_dense: bool) -> None:
    """Also on a rank that does not use the table in a step."""
    torch.manual_seed(0)
    table = nn.Embedding(6, 2, sparse=True)
    plain = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(plain, sparse_as_dense=as_dense)
    before = table.weight.detach().clone()
    for step in range(3):
        optimizer.zero_grad()
        if step == 0 or hvd.rank() > 0:
            table(torch.tensor([hvd.rank(), 5])).sum().backward()
        optimizer.step()
    weights = hvd.allgather(table.weight.detach()[None])
    assert bool((weights == weights[0]).all())
    moved = (weights[0] != before).any(1).tolist()
    assert moved == [row < hvd.size() or row == 5 for row in range(6)]


@pytest.mark.ranks(2)
def test_parameters_that_come_later() -> None:
    first, frozen, added = (nn.Parameter(torch.zeros(2)) for _ in range(3))
    frozen.requires_grad = False
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, frozen], lr=1.0))
    for step in range(3):
        optimizer.zero_grad()
        there = (first, frozen, added)[: step + 1]
        (torch.cat(there).sum() * hvd.rank()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        frozen.requires_grad = True
        if step == 1:
            optimizer.add_param_group({"params": [added]})
    assert [one.tolist() for one in (first, frozen, added)] == [[-1.5] * 2, [-1.0] * 2, [-0.5] * 2]


@pytest.mark.ranks(2, 3)
def test_adasum() -> None:
    parameter = nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), op=hvd.Adasum)
    parameter[hvd.rank()].backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    # Moves in different directions are orthogonal, and add up.
    assert parameter.tolist() == [-1.0] * hvd.size() + [0.0] * (3 - hvd.size())


@pytest.mark.ranks(2)
def test_ranks_with_different_models() -> None:
    parameter = nn.Parameter(torch.zeros(2 + hvd.rank()))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("w", parameter)])
    parameter.sum().backward()  # type: ignore[no-untyped-call]
    message = r"parameter 0: rank 0 has 'w' float32\[2\], rank 1 has 'w' float32\[3\]"
    with pytest.raises(hvd.HorovodInternalError, match=message):
        optimizer.step()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@pytest.mark.ranks(2)
def test_calls_in_the_wrong_order() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    parameter.sum().backward()  # type: ignore[no-untyped-call]
    for error in (UsageError, AssertionError):  # the latter is what Horovod raises
        with pytest.raises(error, match=r"before optimizer\.step"):
            optimizer.zero_grad()
        with pytest.raises(error, match="more than 1 times"):
            parameter.sum().backward()  # type: ignore[no-untyped-call]
    optimizer.synchronize()
    with pytest.warns(UserWarning, match="skip_synchronize"):
        optimizer.step()
    optimizer.zero_grad()
