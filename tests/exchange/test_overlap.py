"""Buckets: how the gradient is cut, and when the exchange of each piece starts."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from phalanx import models
from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatParameters
from phalanx.exchange.overlap import Overlap, cut_in_buckets
from phalanx.exchange.stream import Stream
from phalanx.exchange.sums import Sum


class Recorded(Sum):
    """Writes down when it starts, and which gradients are there by then."""

    def __init__(self, number: int, flat: FlatParameters, log: list[tuple[int, list[int]]]) -> None:
        self._number = number
        self._flat = flat
        self._log = log

    def start(self) -> None:
        views = self._flat.blocks[0].row_views[0]
        there = [index for index, view in enumerate(views) if view.abs().sum() > 0]
        self._log.append((self._number, there))

    def test(self) -> bool:
        return True

    def turn(self) -> None:
        pass

    def finish(self) -> None:
        pass


def make_overlap(
    model: nn.Module, *, careful: bool = False
) -> tuple[Overlap, list[tuple[int, list[int]]]]:
    """An overlap with a bucket for each parameter, and its log."""
    flat = FlatParameters(model)
    buckets = list(cut_in_buckets(flat.blocks[0], 1))
    log: list[tuple[int, list[int]]] = []
    sums = [Recorded(number, flat, log) for number in range(len(buckets))]
    return Overlap(Stream(sums, threaded=False), buckets, careful=careful), log


def test_buckets_start_in_order_as_gradients_come() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    overlap, log = make_overlap(model)
    loss = model(torch.ones(2, 3)).square().sum()
    loss.backward(retain_graph=True)
    assert log == []  # not the last pass
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad.zero_()
    overlap.watch()
    loss.backward()
    assert [number for number, _ in log] == [0, 1, 2, 3]
    assert all(0 not in there for number, there in log if number < 2)  # early
    overlap.finish()
    assert len(log) == 4


def test_a_bucket_without_gradient_holds_up_those_behind_it() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    overlap, log = make_overlap(model)
    overlap.watch()
    model[0](torch.ones(2, 3)).sum().backward()
    assert log == []
    overlap.finish()
    assert [number for number, _ in log] == [0, 1, 2, 3]


def test_after_close_nothing_starts() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    overlap, log = make_overlap(model)
    overlap.watch()
    overlap.close()
    model(torch.ones(2, 3)).sum().backward()
    assert log == []


class Twice(nn.Module):
    """A layer that gets two gradients in a pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, inputs: Tensor) -> Any:
        once = checkpoint(self.layer, inputs, use_reentrant=True)
        return checkpoint(self.layer, once, use_reentrant=True)


def test_a_gradient_that_comes_twice_is_refused() -> None:
    model = Twice()
    overlap, _ = make_overlap(model)
    overlap.watch()
    loss = model(torch.ones(2, 3, requires_grad=True)).sum()
    with pytest.raises(UsageError, match="got a gradient twice"):
        loss.backward()


def test_nobody_who_has_not_asked_for_overlap_is_refused() -> None:
    model = Twice()
    overlap, log = make_overlap(model, careful=True)
    for step in range(2):
        overlap.watch()
        model(torch.ones(2, 3, requires_grad=True)).sum().backward()
        assert len(log) == 2 * step  # nothing before `finish`
        overlap.finish()
        assert len(log) == 2 * (step + 1)


def test_a_first_pass_without_surprises_is_the_last_without_overlap() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    overlap, log = make_overlap(model, careful=True)
    started = []
    for _ in range(3):
        log.clear()
        overlap.watch()
        model(torch.ones(2, 3)).sum().backward()
        started.append(len(log))
        overlap.finish()
    assert started == [0, 4, 4]


def test_buckets_cover_the_gradient_from_its_end() -> None:
    block = FlatParameters(models.build("mlp", input_shape=(1, 8, 8), classes=10)).blocks[0]
    for most_bytes in (1, 300, 5000, 1 << 20):
        buckets = list(cut_in_buckets(block, most_bytes))
        rejoined = torch.cat([bucket.gradients for bucket in reversed(buckets)])
        assert len(rejoined) == block.layout.length
        assert buckets[-1].gradients.data_ptr() == block.gradients.data_ptr()
        indices = [index for bucket in reversed(buckets) for index in bucket.indices]
        assert indices == list(range(len(block.layout.parameters)))
        for bucket in buckets:
            size = bucket.gradients.numel() * 4
            assert size <= most_bytes or len(bucket.indices) == 1
