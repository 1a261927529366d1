"""Parameters, optimizer states and objects that become the same on all ranks."""

from typing import Any

import pytest
import torch
from torch import nn

import phalanx.horovod.torch as hvd
from phalanx.errors import UsageError

pytestmark = [pytest.mark.usefixtures("horovod"), pytest.mark.ranks(1, 2, 3)]


def everywhere(value: Any) -> bool:
    """Whether all ranks have the same."""
    return all(other == value for other in hvd.allgather_object(value))


def test_parameters() -> None:
    torch.manual_seed(hvd.rank())
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    root = hvd.size() - 1
    values = {name: one.tolist() for name, one in model.state_dict().items()}
    expected = hvd.broadcast_object(values, root)
    hvd.broadcast_parameters(model.state_dict(), root_rank=root)
    assert {name: one.tolist() for name, one in model.state_dict().items()} == expected
    weight = next(model.parameters())
    weight.data.fill_(hvd.rank())
    hvd.broadcast_parameters(model.named_parameters(), root_rank=0)
    assert weight.eq(0).all()
    weight.data.fill_(hvd.rank())
    hvd.broadcast_parameters(model.parameters(), root_rank=root)
    assert weight.eq(root).all()
    with pytest.raises(UsageError, match="'a' is an int"):
        hvd.broadcast_parameters({"a": 3})


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.LBFGS])
def test_optimizer_state(kind: Any) -> None:
    """Also where only the root has a state: the others have not stepped yet."""
    model = nn.Linear(2, 2)
    more = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    optimizer = kind(model.parameters(), lr=0.5 if hvd.rank() == 0 else 0.1, **more)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).square().sum()
        loss.backward()
        return loss

    if hvd.rank() == 0:
        optimizer.step(closure)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == 0.5
    state = [
        one.tolist() if isinstance(one, torch.Tensor) else one
        for values in optimizer.state_dict()["state"].values()
        for one in values.values()
        if not isinstance(one, list)
    ]
    assert state
    assert everywhere(state)


def test_objects() -> None:
    value = {"rank": hvd.rank(), "text": "x" * (1000 * hvd.rank())}
    assert hvd.broadcast_object(value, root_rank=hvd.size() - 1)["rank"] == hvd.size() - 1
    assert [one["rank"] for one in hvd.allgather_object(value)] == list(range(hvd.size()))
    assert hvd.broadcast_object(None) is None
