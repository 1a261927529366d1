import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.models import build, check
from phalanx.models.initial import NAMES, Initial, parse
from phalanx.models.initialise import initialise


def make(init: str | None = None, *, name: str = "simplecnn") -> nn.Module:
    torch.manual_seed(9)
    options = {} if init is None else {"init": init}
    return build(name, input_shape=(3, 16, 16), classes=10, options=options)


def weights_and_biases(model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    assert layers
    return (
        [layer.weight.detach() for layer in layers],
        [layer.bias.detach() for layer in layers if layer.bias is not None],
    )


def test_uniform_covers_weights_and_biases() -> None:
    weights, biases = weights_and_biases(make("uniform:0.12"))
    for tensor in (*weights, *biases):
        assert tensor.abs().max() <= 0.12
        assert tensor.std() > 0
    everything = torch.cat([tensor.flatten() for tensor in weights])
    assert everything.std().item() == pytest.approx(0.12 / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize(
    ("init", "deviation"),
    [
        ("normal:0.01", lambda rows, columns: 0.01),
        ("xavier-uniform", lambda rows, columns: math.sqrt(2 / (rows + columns))),
        ("xavier-normal:2", lambda rows, columns: 2 * math.sqrt(2 / (rows + columns))),
        ("kaiming-uniform", lambda rows, columns: math.sqrt(2 / columns)),
        ("kaiming-normal:fan-in", lambda rows, columns: math.sqrt(2 / columns)),
        ("kaiming-normal:fan-out", lambda rows, columns: math.sqrt(2 / rows)),
        ("orthogonal:3", lambda rows, columns: 3 / math.sqrt(max(rows, columns))),
        ("zeros", lambda rows, columns: 0),
    ],
)
def test_others_draw_weights_and_leave_biases_zero(init: str, deviation: object) -> None:
    assert callable(deviation)
    weights, biases = weights_and_biases(make(init))
    linear = weights[2]
    assert linear.std().item() == pytest.approx(deviation(*linear.shape), rel=0.02)
    assert not any(bias.any() for bias in biases)


def test_orthogonal_rows() -> None:
    weights, _ = weights_and_biases(make("orthogonal"))
    torch.testing.assert_close(weights[2] @ weights[2].T, torch.eye(128), rtol=0, atol=1e-5)


@pytest.mark.parametrize("init", NAMES)
def test_the_seed_decides(init: str) -> None:
    argument = ":0.1" if init in ("uniform", "normal") else ""
    first, again = (make(init + argument).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_torch_is_the_models_own() -> None:
    own, named = make().state_dict(), make("torch").state_dict()
    assert all(torch.equal(own[name], named[name]) for name in own)


def test_other_layers_stay_as_they_are() -> None:
    model = make("zeros", name="resnet18")
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert norms
    assert all(bool((layer.weight == 1).all()) for layer in norms)


def test_a_users_model_takes_it_too(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "from torch import nn\ndef net(): return nn.Conv1d(2, 3, 4)\ndef bare(): return nn.ReLU()\n"
        "def normed(): return nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))\n"
    )
    model = make("zeros", name=f"{tmp_path}/model.py:net")
    assert not any(parameter.any() for parameter in model.parameters())
    with pytest.raises(UsageError, match="the model has no linear or convolution layer"):
        make("zeros", name=f"{tmp_path}/model.py:bare")
    with pytest.raises(UsageError, match="Linear has no weights to set"):
        make("zeros", name=f"{tmp_path}/model.py:normed")


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_lazy_weights_are_refused() -> None:
    with pytest.raises(UsageError, match="init zeros: a LazyLinear has no weights to set"):
        initialise(nn.LazyLinear(3), "zeros")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("uniform:0.12", Initial("uniform", number=0.12)),
        ("orthogonal", Initial("orthogonal", number=1.0)),
        ("kaiming-uniform:fan-out", Initial("kaiming-uniform", fan="fan_out")),
        ("torch", Initial("torch")),
    ],
)
def test_reads(text: str, expected: Initial) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("unifrom:0.12", "unknown init 'unifrom': did you mean 'uniform'"),
        ("kaiming", "unknown init 'kaiming': did you mean 'kaiming-"),
        ("", "unknown init '': There are: uniform, normal"),
        ("uniform", "init uniform needs a number after a colon: uniform:0.12"),
        ("uniform:", "a number above 0 after the colon, got 'uniform:'"),
        ("normal:-1", "a number above 0 after the colon, got 'normal:-1'"),
        ("xavier-normal:inf", "a number above 0 after the colon, got 'xavier-normal:inf'"),
        ("kaiming-normal:2", "fan-in or fan-out after a colon, got 'kaiming-normal:2'"),
        ("zeros:1", "init zeros takes nothing after a colon, got 'zeros:1'"),
    ],
)
def test_refuses(text: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        check("mlp", {"init": text})
