"""Flat storage keeps its views through what torch does to them."""

import pytest
import torch
from torch import nn

from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatParameters


def make_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def backward(model: nn.Module) -> None:
    model(torch.ones(4, 3)).sum().backward()


def gradients_of(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def expected_gradients() -> list[torch.Tensor]:
    model = make_model()
    backward(model)
    return gradients_of(model)


def test_values_and_gradients_are_views_of_one_tensor() -> None:
    model = make_model()
    values = [parameter.detach().clone() for parameter in model.parameters()]
    flat = FlatParameters(model)
    (block,) = flat.blocks
    assert all(torch.equal(a, b) for a, b in zip(values, model.parameters(), strict=True))
    flat.attach(0)
    backward(model)
    pairs = zip(gradients_of(model), expected_gradients(), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs)
    block.values.zero_()
    block.gradients.zero_()
    assert all(not p.any() and p.grad is not None and not p.grad.any() for p in model.parameters())
    assert all(view.data_ptr() % 64 == block.values.data_ptr() % 64 for view in block.value_views)


@pytest.mark.parametrize("drop", ["zero_grad", "to", "assign"])
def test_dropped_views_come_back_with_what_replaced_them(drop: str) -> None:
    model = make_model()
    flat = FlatParameters(model)
    if drop == "zero_grad":
        model.zero_grad()
    elif drop == "to":
        model.to(torch.float64).to(torch.float32)
    else:
        model.load_state_dict(make_model().state_dict(), assign=True)
    flat.attach(0)
    backward(model)
    if drop == "zero_grad":
        model.zero_grad()
        backward(model)
    flat.collect(0)
    (block,) = flat.blocks
    for parameter, value, gradient, expected in zip(
        model.parameters(),
        block.value_views,
        block.row_views[0],
        expected_gradients(),
        strict=True,
    ):
        assert parameter.data_ptr() == value.data_ptr()
        assert parameter.grad is gradient
        assert torch.equal(gradient, expected)


def test_tied_frozen_and_mixed_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    model[2].requires_grad_(False)
    model[3].to(torch.float64)
    flat = FlatParameters(model)
    assert [block.layout.dtype for block in flat.blocks] == [torch.float32, torch.float64]
    assert len(flat.blocks[0].layout.parameters) == 3  # one weight for two layers, and two biases
    assert len(flat.frozen) == 2


@pytest.mark.parametrize("again", ["to", "assigned gradient", "channels last"])
def test_gradients_that_got_other_memory_come_back(again: str) -> None:
    model = make_model()
    flat = FlatParameters(model)
    flat.attach(0)
    backward(model)
    if again == "to":
        model.double().float()
    elif again == "channels last":
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    else:
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.data = parameter.grad.data * 2
    flat.attach(0)
    backward(model)
    flat.collect(0)
    (block,) = flat.blocks
    for start, expected in zip(block.layout.starts, expected_gradients(), strict=True):
        found = block.rows[0, start : start + expected.numel()]
        assert torch.equal(found, expected.flatten())


def test_another_dtype_is_refused() -> None:
    model = make_model()
    flat = FlatParameters(model)
    model.double()
    with pytest.raises(UsageError, match=r"has become torch.float64 on cpu, and was torch.float32"):
        flat.attach(0)


def test_rows_are_added_to_the_first_with_their_marks() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    flat = FlatParameters(model, rows=2)
    (block,) = flat.blocks
    for _ in range(2):
        for row, layer in ((0, model[0]), (1, model[1])):
            flat.attach(row)
            layer(torch.ones(1, 2)).sum().backward()
            flat.collect(row)
        assert block.marks()[0].tolist() == [1, 1, 0, 0]
        flat.add_to_first(1)
        assert block.marks()[0].tolist() == [1, 1, 1, 1]
        starts = block.layout.starts
        assert [block.gradients[start].item() for start in starts] == [1.0, 1.0, 1.0, 1.0]


def test_released_parameters_have_memory_of_their_own() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(3, 2))
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    strides = [parameter.stride() for parameter in model.parameters()]
    flat = FlatParameters(model)
    (block,) = flat.blocks
    model(torch.ones(1, 2, 3, 3)).sum().backward()
    values = [parameter.detach().clone() for parameter in model.parameters()]
    flat.release()
    block.values.fill_(float("nan"))
    block.rows.fill_(float("nan"))
    for parameter, value, stride in zip(model.parameters(), values, strides, strict=True):
        assert torch.equal(parameter, value)
        assert parameter.stride() == stride
        assert parameter.grad is None
        assert parameter.untyped_storage().nbytes() == 4 * parameter.numel()
    model(torch.ones(1, 2, 3, 3)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    flat.release()  # once more does no harm
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), values, strict=True))
    FlatParameters(model)  # another one may take them


def test_a_parameter_that_was_replaced_is_released_as_it_is() -> None:
    model = make_model()
    flat = FlatParameters(model)
    other = torch.ones(5, 3)
    model[0].weight.data = other
    flat.release()
    assert model[0].weight.data_ptr() == other.data_ptr()  # type: ignore[operator]
