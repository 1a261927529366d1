"""The networks that PyDTNN defines for itself, layer by layer as its own table has them."""

import pytest
import torch
from torch import nn

from phalanx.errors import UsageError
from phalanx.models import build
from phalanx.models.table import layer_rows, parameter_count

IMAGES = (3, 32, 32)


def test_simplecnn_is_the_table_of_its_readme() -> None:
    rows = layer_rows(build("pydtnn-simplecnn", input_shape=(1, 28, 28), classes=10), (1, 28, 28))
    found = [(row.type, row.parameters, row.output_shape) for row in rows if row.type != "Flatten"]
    assert found == [
        ("Conv2d", 40, (4, 26, 26)),
        ("ReLU", 0, (4, 26, 26)),
        ("Conv2d", 296, (8, 24, 24)),
        ("ReLU", 0, (8, 24, 24)),
        ("MaxPool2d", 0, (8, 12, 12)),
        ("Linear", 147_584, (128,)),
        ("ReLU", 0, (128,)),
        ("Linear", 1290, (10,)),
    ]


def test_the_later_simplecnn_pads_and_drops() -> None:
    model = build("pydtnn-simplecnn-dropout", input_shape=(1, 28, 28), classes=10)
    (dropout,) = (layer for layer in model.modules() if isinstance(layer, nn.Dropout))
    assert dropout.p == 0.5
    rows = {row.output_shape: row.parameters for row in layer_rows(model, (1, 28, 28))}
    assert rows[(8, 14, 14)] == 0
    assert parameter_count(model) == 40 + 296 + 200_832 + 1290


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # Convolutions, then 128 or 512 units over what the poolings leave of 32×32, then 10.
        ("pydtnn-vgg1", 896 + 9_248 + 8_192 * 128 + 128 + 1290),
        ("pydtnn-vgg2", 896 + 9_248 + 18_496 + 36_928 + 4_096 * 128 + 128 + 1290),
        ("pydtnn-vgg3", 287_008 + 2_048 * 128 + 128 + 1290),
        ("pydtnn-vgg3do", 287_008 + 2_048 * 128 + 128 + 1290),
        ("pydtnn-vgg3dobn", 287_008 + 2 * 448 + 2_048 * 512 + 512 + 1024 + 5130),
        # PyDTNN has 1,000,618: its stem has no BatchNorm.
        ("densenet121-k12", 1_000_618 + 48),
    ],
)
def test_parameters(name: str, parameters: int) -> None:
    with torch.device("meta"):
        model = build(name, input_shape=IMAGES, classes=10)
    assert parameter_count(model) == parameters
    assert model(torch.zeros(2, *IMAGES, device="meta")).shape == (2, 10)


@pytest.mark.parametrize(
    ("name", "rates"),
    [("pydtnn-vgg3do", [0.2, 0.2, 0.2, 0.2]), ("pydtnn-vgg3dobn", [0.2, 0.3, 0.4, 0.5])],
)
def test_what_is_dropped(name: str, rates: list[float]) -> None:
    model = build(name, input_shape=IMAGES, classes=10)
    assert [layer.p for layer in model.modules() if isinstance(layer, nn.Dropout)] == rates


def test_weights_are_drawn_as_pydtnn_draws_them() -> None:
    model = build("pydtnn-simplecnn", input_shape=(1, 28, 28), classes=10)
    first = next(layer for layer in model.modules() if isinstance(layer, nn.Linear))
    bound = (6 / (1152 + 128)) ** 0.5
    assert 0.98 * bound < first.weight.abs().max() <= bound
    assert not any(
        parameter.any() for name, parameter in model.named_parameters() if "bias" in name
    )


@pytest.mark.parametrize(
    ("name", "smallest"), [("simplecnn", 6), ("simplecnn-dropout", 2), ("vgg1", 2), ("vgg3dobn", 8)]
)
def test_images_that_are_too_small(name: str, smallest: int) -> None:
    build(f"pydtnn-{name}", input_shape=(1, smallest, smallest), classes=3)
    with pytest.raises(UsageError, match=f"pydtnn-{name} needs images of {smallest}×{smallest}"):
        build(f"pydtnn-{name}", input_shape=(1, smallest - 1, smallest), classes=3)
