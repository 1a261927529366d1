"""DistributedOptimizers match by the names of their parameters, and these by theirs."""

import pytest
import torch
from torch import nn

import phalanx.horovod.torch as hvd
from phalanx.errors import UsageError

pytestmark = pytest.mark.usefixtures("horovod")


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("op", [hvd.Average, hvd.Adasum])
def test_parameters_in_another_order(op: hvd.ReduceOp) -> None:
    named = [(f"layer{i}", nn.Parameter(torch.zeros(2 + i))) for i in range(3)]
    ordered = named if hvd.rank() == 0 else named[::-1]
    plain = torch.optim.SGD([parameter for _, parameter in ordered], lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, named, op=op)
    for _ in range(2):
        optimizer.zero_grad()
        sum((i + 1) * one.sum() for i, (_, one) in enumerate(named)).backward()  # type: ignore[union-attr]
        optimizer.step()
    for i, (_, one) in enumerate(named):
        torch.testing.assert_close(one.detach(), torch.full((2 + i,), -2.0 * (i + 1)))


@pytest.mark.ranks(2)
@pytest.mark.parametrize("names", ["others", "the same"])
def test_an_optimizer_that_one_rank_has_alone(names: str) -> None:
    kept = []
    if hvd.rank() == 0:
        extra = nn.Linear(2, 2 if names == "others" else 3, bias=names == "the same")
        kept.append(hvd.DistributedOptimizer(torch.optim.SGD(extra.parameters(), lr=1.0)))
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3))]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0))
    (torch.cat(tuple(parameters)).sum() * hvd.rank()).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert parameters[0].tolist() == [-0.5] * 2


@pytest.mark.ranks(2)
def test_two_optimizers_of_the_same_names() -> None:
    models = [nn.Linear(2, 1, bias=False) for _ in range(2)]
    optimizers = [
        hvd.DistributedOptimizer(torch.optim.SGD(one.parameters(), lr=1.0)) for one in models
    ]
    for model, optimizer, slope in zip(models, optimizers, (1.0, 2.0), strict=True):
        before = model.weight.detach().clone()
        (model.weight.sum() * slope * hvd.rank()).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        torch.testing.assert_close(model.weight.detach(), before - slope / 2)


@pytest.mark.ranks(2, 3)
def test_ranks_with_other_names_do_not_wait_for_each_other() -> None:
    parameters = [nn.Parameter(torch.zeros(2)) for _ in range(1 + (hvd.rank() == 0))]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0))
    torch.cat(tuple(parameters)).sum().backward()  # type: ignore[no-untyped-call]
    message = r"rank 0 has 'parameter\.1' float32\[2\], ranks? 1(, 2)? has no 'parameter\.1'"
    with pytest.raises(hvd.HorovodInternalError, match=message):
        optimizer.step()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


@pytest.mark.ranks(2)
def test_a_parameter_in_two_groups() -> None:
    first, second, third = (nn.Parameter(torch.zeros(2)) for _ in range(3))
    plain = torch.optim.SGD([first, second, third], lr=1.0)
    with pytest.raises(UsageError, match="a parameter can only appear once in groups"):
        hvd.DistributedOptimizer(plain, groups=[[first, second], [first, third]])
