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


@pytest.mark.parametrize("name", ["mlp", "logistic"])
@pytest.mark.parametrize(("shape", "classes"), [((), 3), ((0, 4), 3), ((4,), 0)])
def test_nothing_to_map_is_refused(name: str, shape: tuple[int, ...], classes: int) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot map inputs of shape"):
        build(name, input_shape=shape, classes=classes)


def test_mlp_standardises_what_linear_layers_read() -> None:
    torch.manual_seed(3)
    options = {"hidden": (6, 5), "activation": "sigmoid", "standardise": True}
    model = build("mlp", input_shape=(4,), classes=3, options=options)
    assert isinstance(model, nn.Sequential)
    assert parameter_count(model) == (4 * 6 + 6) + (6 * 5 + 5) + (5 * 3 + 3)
    inputs = torch.rand(7, 4)
    linear = [index for index, layer in enumerate(model) if isinstance(layer, nn.Linear)]
    assert torch.equal(model[: linear[0]](inputs), inputs)
    for index in linear[1:]:
        activations = model[: index - 1](inputs)
        deviation = activations.std(dim=1, correction=0, keepdim=True)
        expected = (activations - activations.mean(dim=1, keepdim=True)) / deviation
        torch.testing.assert_close(model[:index](inputs), expected, rtol=1e-2, atol=1e-3)


def test_mlp_standardises_equal_activations_to_zero() -> None:
    options = {"standardise": True, "init": "zeros"}
    model = build("mlp", input_shape=(4,), classes=3, options=options)
    assert isinstance(model, nn.Sequential)
    inputs = torch.rand(2, 4, requires_grad=True)
    standardised = model[:-1](inputs)
    standardised.sum().backward()
    assert not standardised.any()
    assert inputs.grad is not None
    assert inputs.grad.isfinite().all()


def test_logistic_is_one_linear_layer() -> None:
    model = build("logistic", input_shape=(1, 4, 2), classes=3)
    assert parameter_count(model) == 8 * 3 + 3
    assert model(torch.zeros(7, 1, 4, 2)).shape == (7, 3)


@pytest.mark.parametrize(
    ("shape", "parameters"), [((1, 32, 32), 61_706), ((1, 28, 28), 61_706), ((3, 32, 32), 62_006)]
)
def test_lenet5_as_published(shape: tuple[int, ...], parameters: int) -> None:
    assert parameter_count(build("lenet5", input_shape=shape, classes=10)) == parameters


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
