"""Every optimizer by name, with torch's own options."""

import inspect
from typing import Any

import pytest
import torch
from torch import nn

from phalanx.errors import UsageError
from phalanx.settings.optimizers import OPTIMIZERS, parse_options
from phalanx.settings.table import Settings
from phalanx.strategies.building_blocks.sliced_optimizer import ELEMENTWISE
from phalanx.train.optimizers import make_optimizer

#: What says how torch computes, not what, or turns the whole around.
_NOT_OURS = {"params", "lr", "foreach", "maximize", "capturable", "differentiable", "fused"}


def parameters(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    return [nn.Parameter(torch.ones(3, dtype=dtype))]


def make(**settings: Any) -> torch.optim.Optimizer:
    return make_optimizer(Settings(**settings), parameters())


#: Those of the table that are torch's.
OF_TORCH = [name for name, entry in OPTIMIZERS.items() if not entry.of_pydtnn]


def test_the_table_has_every_elementwise_optimizer_of_torch() -> None:
    assert {OPTIMIZERS[name].kind for name in OF_TORCH} == {kind.__name__ for kind in ELEMENTWISE}


@pytest.mark.parametrize("name", OF_TORCH)
def test_the_table_has_every_option_of_torch(name: str) -> None:
    entry = OPTIMIZERS[name]
    signature = inspect.signature(getattr(torch.optim, entry.kind))
    assert set(entry.options) == set(signature.parameters) - _NOT_OURS
    assert ("fused" in signature.parameters) == entry.fused
    if name != "sgd":
        assert signature.parameters["lr"].default == entry.learning_rate


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_steps(name: str) -> None:
    weights = parameters()
    optimizer = make_optimizer(Settings(optimizer=name), weights)
    weights[0].grad = torch.tensor([1.0, -1.0, 2.0])
    optimizer.step()
    assert (weights[0] != 1).all()


def test_options_reach_torch() -> None:
    optimizer = make(optimizer="adam", optimizer_options="betas=0.8,0.95 eps=1e-6 amsgrad=true")
    group = optimizer.param_groups[0]
    assert (group["betas"], group["eps"], group["amsgrad"]) == ((0.8, 0.95), 1e-6, True)
    assert make(optimizer="rmsprop", momentum=0.5).param_groups[0]["momentum"] == 0.5


def test_the_learning_rate_is_scaled_with_the_workers() -> None:
    for how, expected in {"no": 0.1, "linear": 0.4, "sqrt": 0.2}.items():
        settings = Settings(learning_rate=0.1, scale_learning_rate=how)
        optimizer = make_optimizer(settings, parameters(), workers=4)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected)


def test_sgd_moves_weights_of_sixteen_bits() -> None:
    weights = parameters(torch.bfloat16)
    optimizer = make_optimizer(Settings(optimizer="sgd", momentum=0.9), weights)
    weights[0].grad = torch.ones(3, dtype=torch.bfloat16)
    optimizer.step()
    assert (weights[0] < 1).all()


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("epsilon=1", "did you mean 'eps'"),
        ("eps", "not of the form eps=1e-6"),
        ("betas=0.9", "not of the form betas=0.9,0.999"),
        ("amsgrad=maybe", "not of the form amsgrad=true"),
    ],
)
def test_options_that_make_no_sense(text: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        parse_options("adam", text)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [("adam", "betas=1.5,0.9"), ("adamw", "weight_decay=-1"), ("sgd", "nesterov=true")],
)
def test_values_that_torch_refuses(optimizer: str, options: str) -> None:
    with pytest.raises(UsageError, match=f"--optimizer {optimizer}: "):
        make(optimizer=optimizer, optimizer_options=options)
