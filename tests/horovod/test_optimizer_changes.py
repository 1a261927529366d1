"""DistributedOptimizer whose parameters or gradients change behind its back."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import phalanx.horovod.torch as hvd

pytestmark = pytest.mark.usefixtures("horovod")

Change = Callable[[nn.Module], object]


def network() -> nn.Module:
    torch.manual_seed(5)
    layers = (nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 2))
    return nn.Sequential(*layers)


def halve_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.data = parameter.grad.data * 0.5


def backward(model: nn.Module, images: Tensor) -> None:
    images = images.to(next(model.parameters()).dtype)
    model(images).square().mean().backward()


def same_on_all_ranks(model: nn.Module) -> bool:
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyone = hvd.allgather(flat[None])
    return bool((everyone == everyone[0]).all())


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.double().float(),
        lambda model: model.double(),
        lambda model: model.to(memory_format=torch.channels_last),
        halve_gradients,
    ],
    ids=["there and back", "dtype", "memory format", "gradients"],
)
@pytest.mark.parametrize("set_to_none", [True, False])
def test_memory_that_is_pointed_elsewhere(change: Change, set_to_none: bool) -> None:
    """`grad.data = …` leaves `.grad` the tensor it was, but takes it out of its bucket."""
    model = network()
    alone = copy.deepcopy(model)
    images = torch.randn(6 * hvd.size(), 2, 6, 6)
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    expected = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad(set_to_none)
        backward(model, images[hvd.rank() :: hvd.size()])
        optimizer.synchronize()
        expected.zero_grad(set_to_none)
        backward(alone, images)
        if step == 1:
            change(model)
            change(alone)
        with optimizer.skip_synchronize():
            optimizer.step()
        expected.step()
    assert same_on_all_ranks(model)
    for own, other in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5)


@pytest.mark.ranks(2)
def test_a_gradient_that_is_replaced_before_the_step() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    for step in range(2):
        optimizer.zero_grad()
        (parameter.sum() * hvd.rank()).backward()  # type: ignore[no-untyped-call]
        if step == 1:
            parameter.grad = None
        optimizer.step()
    assert parameter.tolist() == [-1.0] * 2


@pytest.mark.ranks(2)
def test_memory_in_another_order_on_one_rank() -> None:
    model = nn.Conv2d(2, 3, 2)
    if hvd.rank() == 1:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    before = model.weight.detach().clone()
    slopes = torch.arange(24.0).view(3, 2, 2, 2)
    (model.weight * slopes).sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    torch.testing.assert_close(model.weight.detach(), before - slopes)


@pytest.mark.ranks(2, 3)
def test_a_layer_that_one_rank_freezes() -> None:
    model = network()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    torch.manual_seed(hvd.rank())
    for step in range(4):
        if step == 2 and hvd.rank() == 0:
            next(model.parameters()).requires_grad = False
        optimizer.zero_grad()
        backward(model, torch.randn(2, 2, 6, 6))
        optimizer.step()
    assert same_on_all_ranks(model)


@pytest.mark.ranks(2)
def test_a_layer_that_all_ranks_freeze_stays_as_it_is() -> None:
    first, second = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    plain = torch.optim.SGD([first, second], lr=0.1, momentum=0.9, weight_decay=0.1)
    optimizer = hvd.DistributedOptimizer(plain)
    for step in range(3):
        second.requires_grad = step == 0
        optimizer.zero_grad()
        torch.cat([first, second]).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step == 0:
            frozen = second.detach().clone()
    assert second.tolist() == frozen.tolist()
    assert second.grad is None


@pytest.mark.ranks(2, 3)
def test_a_layer_that_one_rank_sets_free() -> None:
    """It would agree with the others anew, while they wait for it in a step."""
    first, second = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
    second.requires_grad = False
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first, second], lr=1.0))

    def train() -> None:
        optimizer.zero_grad()
        torch.cat([first, second]).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    train()
    second.requires_grad = hvd.rank() == 0
    others = "rank 1" if hvd.size() == 2 else "ranks 1, 2"
    with pytest.raises(hvd.HorovodInternalError, match=f"changed on rank 0 but not on {others}"):
        train()
    with pytest.raises(hvd.HorovodInternalError, match=r"rank 0 has 'parameter.1' .* has no"):
        train()
    second.requires_grad = True
    train()
    assert hvd.allgather(second.detach()[None]).tolist() == [[-1.0] * 2] * hvd.size()
