import pytest
import torch
from torch import nn

from phalanx.errors import UsageError
from phalanx.models import build
from phalanx.models.options import ACTIVATIONS
from phalanx.models.table import parameter_count


def test_mlp_has_the_layers_asked_for() -> None:
    options = {"hidden": (5, 3), "activation": "tanh"}
    model = build("mlp", input_shape=(1, 4, 2), classes=2, options=options)
    assert isinstance(model, nn.Sequential)
    kinds = [type(layer).__name__ for layer in model]
    assert kinds == ["Flatten", "Linear", "Tanh", "Linear", "Tanh", "Linear"]
    assert parameter_count(model) == (8 * 5 + 5) + (5 * 3 + 3) + (3 * 2 + 2)
    assert model(torch.zeros(7, 1, 4, 2)).shape == (7, 2)


def test_mlp_by_default() -> None:
    model = build("mlp", input_shape=(4,), classes=3)
    assert parameter_count(model) == (4 * 128 + 128) + (128 * 3 + 3)


def test_mlp_without_hidden_layers_is_linear() -> None:
    model = build("mlp", input_shape=(4,), classes=3, options={"hidden": []})
    assert parameter_count(model) == 4 * 3 + 3


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_known(activation: str) -> None:
    model = build("mlp", input_shape=(4,), classes=3, options={"activation": activation})
    assert type(model[2]).__name__.lower() == activation  # type: ignore[index]


@pytest.mark.parametrize(("shape", "classes"), [((), 3), ((0, 4), 3), ((4,), 0)])
def test_mlp_refuses_nothing_to_map(shape: tuple[int, ...], classes: int) -> None:
    with pytest.raises(UsageError, match="mlp cannot map inputs of shape"):
        build("mlp", input_shape=shape, classes=classes)


@pytest.mark.parametrize(
    ("shape", "features"),
    [((1, 28, 28), 8 * 14 * 14), ((3, 32, 32), 8 * 16 * 16), ((2, 5, 3), 8 * 2 * 1)],
)
def test_simplecnn_fits_any_image(shape: tuple[int, int, int], features: int) -> None:
    model = build("simplecnn", input_shape=shape, classes=10)
    convolutions = (shape[0] * 9 * 4 + 4) + (4 * 9 * 8 + 8)
    linears = (features * 128 + 128) + (128 * 10 + 10)
    assert parameter_count(model) == convolutions + linears
    assert model(torch.zeros(2, *shape)).shape == (2, 10)


@pytest.mark.parametrize(
    ("shape", "cause"),
    [
        ((4,), r"\(channels, height, width\), got \(4,\)"),
        ((28, 28), r"got \(28, 28\)"),
        ((1, 1, 28), r"2×2 pixels or more, got \(1, 1, 28\)"),
        ((1, 28, 1), r"2×2 pixels or more, got \(1, 28, 1\)"),
        ((0, 28, 28), r"got \(0, 28, 28\)"),
    ],
)
def test_simplecnn_refuses_other_shapes(shape: tuple[int, ...], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        build("simplecnn", input_shape=shape, classes=10)


def test_simplecnn_needs_a_class() -> None:
    with pytest.raises(UsageError, match="1 class or more, got 0"):
        build("simplecnn", input_shape=(1, 8, 8), classes=0)
