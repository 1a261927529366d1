"""The networks for ImageNet have the published sizes, and smaller images their own stems."""

import pytest
import torch
from torch import Tensor, nn

from phalanx.models import build
from phalanx.models.families import densenet, resnet_imagenet
from phalanx.models.table import parameter_count

#: For 1000 classes, without auxiliary classifiers; VGG has a test of its own.
PUBLISHED = {
    "alexnet": 61_100_840,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "densenet121": 7_978_856,
    "densenet161": 28_681_000,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "googlenet": 6_624_904,
    "inception-v3": 23_834_568,
    "mobilenet-v1": 4_231_976,
}

#: What the layers before the last pooling leave of the smallest images that the published stem
#: takes, and of others that it does not.
PIXELS = {
    "alexnet": {64: 1, 32: 4},
    "resnet50": {64: 2, 63: 8, 32: 4},
    "densenet121": {32: 4},
    "googlenet": {64: 2, 32: 8},
    "inception-v3": {75: 1, 32: 7},
    "mobilenet-v1": {64: 2, 32: 2},
}


def test_every_depth_is_tested() -> None:
    names = [f"resnet{depth}" for depth in resnet_imagenet.DEPTHS]
    names += [f"densenet{depth}" for depth in densenet.DEPTHS]
    assert [name for name in PUBLISHED if name.startswith(("resnet", "densenet"))] == names


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_as_published(name: str) -> None:
    pixels = 299 if name == "inception-v3" else 224
    with torch.device("meta"):
        model = build(name, input_shape=(3, pixels, pixels), classes=1000)
    assert parameter_count(model) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "pixels", "left"),
    [(name, pixels, left) for name, sizes in PIXELS.items() for pixels, left in sizes.items()],
)
def test_pixels_left_for_the_classifier(name: str, pixels: int, left: int) -> None:
    shape = (3, pixels, pixels)
    with torch.device("meta"):
        model = build(name, input_shape=shape, classes=7)
        assert isinstance(model, nn.Sequential)
        last = next(
            index
            for index, layer in enumerate(model)
            if isinstance(layer, nn.AdaptiveAvgPool2d | nn.Flatten)
        )
        before: Tensor = model[:last](torch.zeros(2, *shape))
        assert before.shape[2:] == (left, left)
        assert model[last:](before).shape == (2, 7)


@pytest.mark.parametrize("name", ["alexnet", "resnet34", "densenet121", "googlenet"])
def test_the_signal_reaches_the_last_layer(name: str) -> None:
    torch.manual_seed(0)
    shape = (3, 16, 16)
    model = build(name, input_shape=shape, classes=10)
    assert isinstance(model, nn.Sequential)
    with torch.no_grad():
        assert 0.01 < model[:-1](torch.randn(4, *shape)).std().item() < 10


def test_a_bottleneck_without_residual_is_its_shortcut() -> None:
    block = resnet_imagenet.Block(8, 2, stride=1, expansion=4)
    for layer in block.residual.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.zeros_(layer.weight)
    inputs = torch.rand(3, 8, 4, 4)
    assert torch.equal(block(inputs), inputs)


def test_a_dense_layer_keeps_its_input() -> None:
    inputs = torch.rand(3, 4, 5, 5)
    output = densenet.DenseLayer(4, 2)(inputs)
    assert output.shape == (3, 6, 5, 5)
    assert torch.equal(output[:, :4], inputs)
