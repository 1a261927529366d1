"""PyDTNN's optimizers, by their formulas on plain numbers."""

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD

from phalanx.errors import UsageError
from phalanx.settings.optimizers import OPTIMIZERS
from phalanx.settings.table import Settings
from phalanx.strategies.building_blocks.sliced_optimizer import is_elementwise
from phalanx.train.optimizers import make_optimizer
from phalanx.train.pydtnn_optimizers import PyDTNNAdam, PyDTNNSGD

GRADIENTS = (0.5, -2.0, 1e-6, 3.0)
RATE, DECAY, EPSILON = 0.1, 0.2, 1e-4


def stepped(name: str, options: str) -> list[float]:
    """A weight of 1 after each of the steps."""
    weight = nn.Parameter(torch.ones(1, dtype=torch.float64))
    settings = Settings(optimizer=name, learning_rate=RATE, optimizer_options=options)
    optimizer = make_optimizer(settings, [weight])
    found = []
    for gradient in GRADIENTS:
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
        found.append(weight.item())
    return found


def by_moments(*, ahead: bool) -> list[float]:
    weight, mean, square, found = 1.0, 0.0, 0.0, []
    for step, gradient in enumerate(GRADIENTS, 1):
        mean = 0.9 * mean + (1 - 0.9) * gradient
        square = 0.8 * square + (1 - 0.8) * gradient**2
        moment = mean + (1 - 0.9) * gradient if ahead else mean
        way = moment / (1 - 0.9**step) / math.sqrt(square / (1 - 0.8**step) + EPSILON)
        weight -= RATE * (DECAY * weight + way)
        found.append(weight)
    return found


def by_squares() -> list[float]:
    weight, square, found = 1.0, 0.0, []
    for gradient in GRADIENTS:
        square = 0.7 * square + (1 - 0.7) * gradient**2
        weight -= RATE * (DECAY * weight + gradient / math.sqrt(square + EPSILON))
        found.append(weight)
    return found


def by_velocity(*, nesterov: bool) -> list[float]:
    weight, velocity, found = 1.0, 0.0, []
    for gradient in GRADIENTS:
        velocity = 0.6 * velocity + gradient
        way = gradient + 0.6 * velocity if nesterov else velocity
        weight -= RATE * (DECAY * weight + way)
        found.append(weight)
    return found


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("pydtnn-adam", "betas=0.9,0.8 epsilon=1e-4", by_moments(ahead=False)),
        ("pydtnn-nadam", "betas=0.9,0.8 epsilon=1e-4", by_moments(ahead=True)),
        ("pydtnn-rmsprop", "rho=0.7 epsilon=1e-4", by_squares()),
        ("pydtnn-sgd", "momentum=0.6", by_velocity(nesterov=False)),
        ("pydtnn-sgd", "momentum=0.6 nesterov=true", by_velocity(nesterov=True)),
    ],
)
def test_the_formulas(name: str, options: str, expected: list[float]) -> None:
    assert stepped(name, f"{options} decay={DECAY}") == pytest.approx(expected, rel=1e-12)


def test_without_decay_sgd_is_that_of_torch() -> None:
    ours, theirs = (nn.Parameter(torch.ones(3)) for _ in range(2))
    steppers = PyDTNNSGD([ours], lr=0.1, momentum=0.9), SGD([theirs], lr=0.1, momentum=0.9)
    for gradient in GRADIENTS:
        for weight, stepper in zip((ours, theirs), steppers, strict=True):
            weight.grad = torch.full_like(weight, gradient)
            stepper.step()
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", [one for one, entry in OPTIMIZERS.items() if entry.of_pydtnn])
def test_any_strategy_may_step_pieces(name: str) -> None:
    assert is_elementwise(make_optimizer(Settings(optimizer=name), [nn.Parameter(torch.ones(1))]))


@pytest.mark.parametrize("options", ["betas=1.5,0.9", "decay=-1", "epsilon=-1"])
def test_values_that_make_no_sense(options: str) -> None:
    with pytest.raises(UsageError, match="--optimizer pydtnn-adam: "):
        stepped("pydtnn-adam", options)


def test_what_it_does_not_have() -> None:
    unknown: Any = {"amsgrad": True}
    with pytest.raises(TypeError, match="PyDTNNAdam takes no amsgrad"):
        PyDTNNAdam([nn.Parameter(torch.ones(1))], **unknown)


def test_a_closure_is_called() -> None:
    weight = nn.Parameter(torch.ones(1))

    def loss() -> torch.Tensor:
        value = weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    assert PyDTNNAdam([weight], lr=0.5).step(loss).item() == 1
    assert weight.item() < 1
