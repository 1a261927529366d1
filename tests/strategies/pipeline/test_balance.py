"""The automatic cut: exact for the costs it is given, and measured without a trace."""

import random
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.data.split import Samples
from phalanx.strategies.pipeline.balance import Costs, Link, best_cut, slowest
from phalanx.strategies.pipeline.measuring import measure_links, survey, time_parts
from phalanx.strategies.pipeline.transfer import Form
from phalanx.train.losses import make_loss

FREE = Link(0.0, 0.0)


def exhaustive(costs: Costs) -> float:
    """The slowest stage of the best of all cuts."""
    parts, borders = len(costs.passes), len(costs.links)
    return min(slowest(costs, cut) for cut in combinations(range(1, parts), borders))


@pytest.mark.parametrize("seed", range(60))
def test_no_cut_is_better(seed: int) -> None:
    draw = random.Random(seed)
    parts = draw.randint(1, 9)
    stages = draw.randint(1, parts)
    costs = Costs(
        passes=tuple(draw.choice([0.0, 1.0, 100.0]) * draw.random() for _ in range(parts)),
        messages=((), *((draw.randrange(100),) * draw.randint(1, 2) for _ in range(parts - 1))),
        links=tuple(Link(draw.random(), draw.random() / 10) for _ in range(stages - 1)),
    )
    cut = best_cut(costs)
    assert len(cut) == stages - 1
    assert list(cut) == sorted(set(cut))
    assert slowest(costs, cut) == pytest.approx(exhaustive(costs))


def test_a_heavy_part_gets_a_stage_of_its_own() -> None:
    costs = Costs(passes=(1, 1, 9, 1, 1), messages=((),) + ((0,),) * 4, links=(FREE, FREE))
    assert best_cut(costs) == (2, 3)


def test_a_slow_link_moves_the_cut_to_where_little_passes() -> None:
    passes, messages = (2.0, 2.0, 2.0, 2.0), ((), (1,), (1000,), (1000,))
    assert best_cut(Costs(passes, messages, (FREE,))) == (2,)
    assert best_cut(Costs(passes, messages, (Link(0.0, 0.1),))) == (1,)


def make_samples(count: int = 8, *shape: int) -> Samples:
    return Samples(torch.randn(count, *(shape or (64,))), torch.zeros(count, dtype=torch.long))


class Watch:
    """A clock that only the layers of a test move on."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Costly(nn.Module):
    """Takes so many seconds by the watch, and twice as many backward."""

    def __init__(self, watch: Watch, seconds: float) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)
        self.watch = watch
        self.seconds = seconds

    def forward(self, inputs: Tensor) -> Tensor:
        self.watch.advance(self.seconds)
        outputs: Tensor = self.layer(inputs)
        if outputs.requires_grad:
            outputs.register_hook(lambda _: self.watch.advance(2 * self.seconds))  # type: ignore[no-untyped-call]
        return outputs


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_layers_that_differ_a_hundredfold(stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    monkeypatch.setattr("phalanx.strategies.pipeline.measuring.time", watch)
    takes = [1.0, 1.0, 100.0, 3.0, 50.0, 1.0, 20.0, 40.0, 1.0]
    model = nn.Sequential(*(Costly(watch, seconds) for seconds in takes))
    seconds = time_parts(
        list(model), range(len(model)), samples=make_samples(), loss=make_loss("cross-entropy")
    )
    assert [one.forward for one in seconds] == takes
    assert [one.backward for one in seconds] == [2 * one for one in takes]
    passes = tuple(one.forward + one.backward for one in seconds)
    costs = Costs(passes, ((),) + ((1024, 1024),) * (len(model) - 1), (FREE,) * (stages - 1))
    assert slowest(costs, best_cut(costs)) <= 1.05 * exhaustive(costs)


@pytest.mark.parametrize("stages", [2, 3])
def test_the_times_of_real_layers(stages: int) -> None:
    layers = [nn.Linear(64, 64) if one % 2 else nn.Tanh() for one in range(7)]
    seconds = time_parts(layers, range(7), samples=make_samples(), loss=make_loss("cross-entropy"))
    passes = tuple(one.forward + one.backward for one in seconds)
    assert all(one > 0 for one in passes)
    costs = Costs(passes, ((),) + ((1024, 1024),) * 6, (FREE,) * (stages - 1))
    assert slowest(costs, best_cut(costs)) <= 1.05 * exhaustive(costs)


class Twins(nn.Module):
    """Gives a tuple, which the next layer takes."""

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return inputs, inputs


class Join(nn.Module):
    def forward(self, inputs: tuple[Tensor, Tensor]) -> Tensor:
        return inputs[0] + inputs[1]


class Doubling(nn.Module):
    """Works in place and counts in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls: Tensor
        self.calls += 1
        return inputs.mul_(2)


def make_traced() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        Doubling(),
        nn.Dropout(0.5),
        nn.Flatten(),
        Twins(),
        Join(),
        nn.Linear(144, 10),
    )


def state_of(model: nn.Module) -> list[Any]:
    tensors = [tensor.clone() for tensor in model.state_dict().values()]
    modes = [module.training for module in model.modules()]
    return [*tensors, torch.get_rng_state(), torch.tensor(modes)]


def test_measuring_leaves_no_trace() -> None:
    model = make_traced()
    model[3].eval()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    samples = make_samples(5, 1, 8, 8)
    inputs, before = samples.inputs.clone(), state_of(model)
    survey(list(model), samples.inputs)
    time_parts(list(model), [0, 2, 4], samples=samples, loss=make_loss("cross-entropy"))
    for one, other in zip(state_of(model), before, strict=True):
        assert torch.equal(one, other)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert parameter.grad is gradient
        assert torch.equal(gradient, torch.ones_like(gradient))
    assert torch.equal(samples.inputs, inputs)


def test_a_survey_says_where_a_model_can_be_cut() -> None:
    found = survey(list(make_traced()), torch.randn(5, 1, 8, 8))
    assert found.random
    assert isinstance(found.outputs[0], Form)
    assert found.outputs[0].shape == (4, 6, 6)
    assert found.outputs[5] == "gives a tuple, not a tensor"
    assert not survey([nn.Linear(4, 4)], torch.randn(2, 4)).random


@pytest.mark.parametrize(
    ("layer", "cause"),
    [(nn.Flatten(0), "which must come first"), (nn.Linear(4, 4), "torch.int64")],
)
def test_a_survey_says_why_not(layer: nn.Module, cause: str) -> None:
    if isinstance(layer, nn.Linear):
        layer.register_forward_hook(lambda _module, _inputs, output: output.long())
    output = survey([layer], torch.randn(3, 4)).outputs[0]
    assert isinstance(output, str)
    assert cause in output


@pytest.mark.ranks(1, 2, 4)
def test_every_link_is_measured(comm: Communicator) -> None:
    links = measure_links(comm)
    assert len(links) == comm.size - 1
    assert all(link.latency > 0 and link.seconds_per_byte >= 0 for link in links)
    assert comm.allgather_objects(links) == [links] * comm.size
