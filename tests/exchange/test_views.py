"""Views survive what users and torch do to gradients."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from phalanx.exchange.views import Views, dense_strides, is_channels_last, strides_of


def make_views() -> tuple[Views, Tensor]:
    flat = torch.zeros(12)
    parameters = [nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(4))]
    views = Views(flat, parameters, starts=[0, 8])
    views.attach()
    return views, flat


def test_views_are_the_gradients_and_have_versions_of_their_own() -> None:
    views, flat = make_views()
    first, second = views
    before = second._version
    first.add_(1.0)
    assert second._version == before
    views.parameters[1].sum().backward()  # type: ignore[no-untyped-call]
    assert second._version > before
    assert flat.tolist() == [1.0] * 6 + [0.0] * 2 + [1.0] * 4


def move(gradient: Tensor) -> None:
    gradient.data = torch.full(gradient.shape, 7.0)


def convert(gradient: Tensor) -> None:
    gradient.data = torch.full(gradient.shape, 7.0, dtype=torch.float64)


def transpose(gradient: Tensor) -> None:
    gradient.data = gradient.data.fill_(7.0).t()


@pytest.mark.parametrize("change", [move, convert, transpose])
def test_put_keeps_what_a_view_in_other_memory_holds(change: Callable[[Tensor], None]) -> None:
    views, flat = make_views()
    view = views.tensors[0]
    change(view)
    gradient = view if change is not transpose else torch.full((2, 3), 7.0)
    views.put(0, gradient)
    assert views.tensors[0] is view
    assert (view.dtype, view.stride()) == (torch.float32, (3, 1))
    assert flat[:6].tolist() == [7.0] * 6
    view.fill_(2.0)
    assert flat[:6].tolist() == [2.0] * 6


def test_put_takes_another_gradient_and_none() -> None:
    views, flat = make_views()
    views.put(1, torch.arange(4.0))
    assert flat[8:].tolist() == [0.0, 1.0, 2.0, 3.0]
    views.put(1, None)
    assert flat[8:].tolist() == [0.0] * 4


def test_restore_forgets_what_was_elsewhere() -> None:
    views, flat = make_views()
    flat.fill_(3.0)
    move(views.tensors[1])
    views.restore()
    assert views.tensors[1].tolist() == [3.0] * 4
    flat[8:] = 5.0
    assert views.tensors[1].tolist() == [5.0] * 4


def test_collect_takes_replaced_gradients_in() -> None:
    views, flat = make_views()
    flat.fill_(3.0)
    views.parameters[0].grad = torch.full((2, 3), 9.0)
    views.parameters[1].grad = None
    views.collect()
    assert views.parameters[0].grad is views.tensors[0]
    assert views.parameters[1].grad is None
    assert flat.tolist() == [9.0] * 6 + [3.0] * 6


def test_values_that_are_elsewhere_and_those_released() -> None:
    views, flat = make_views()
    assert views.replaced() == [0, 1]
    for parameter, view in zip(views.parameters, views, strict=True):
        parameter.data = view
    assert views.replaced() == []
    views.parameters[0].data = torch.full((2, 3), 4.0)
    assert views.replaced() == [0]
    views.release_values()
    flat.fill_(8.0)
    assert views.parameters[0].tolist() == [[4.0] * 3] * 2
    assert views.parameters[1].tolist() == [0.0] * 4


def test_orders_of_memory() -> None:
    weight = nn.Parameter(torch.zeros(2, 3, 4, 5))
    last = nn.Parameter(weight.detach().to(memory_format=torch.channels_last))
    assert not is_channels_last(weight)
    assert is_channels_last(last)
    for one in (weight, last):
        assert strides_of(one, channels_last=True) == last.stride()
        assert strides_of(one, channels_last=False) == weight.stride()
        assert dense_strides(one) == one.stride()
    gaps = torch.zeros(4, 6)[:, ::2]
    assert dense_strides(gaps) == (3, 1)
    flat = torch.arange(120.0)
    (view,) = Views(flat, [last], starts=[0])
    assert view.is_contiguous(memory_format=torch.channels_last)
