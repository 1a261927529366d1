import pytest
import torch
from torch import nn

from phalanx.errors import UsageError
from phalanx.models import build, model_names
from phalanx.models.families.vgg import DEPTHS
from phalanx.models.table import parameter_count

#: Published with torchvision, for 1000 classes of 224×224 images.
PUBLISHED = {
    "vgg11": 132_863_336,
    "vgg13": 133_047_848,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
    "vgg11-bn": 132_868_840,
    "vgg13-bn": 133_053_736,
    "vgg16-bn": 138_365_992,
    "vgg19-bn": 143_678_248,
}


def test_every_depth_has_its_names() -> None:
    names = [f"vgg{depth}{suffix}" for suffix in ("", "-bn") for depth in DEPTHS]
    assert list(PUBLISHED) == names == [name for name in model_names() if name[:3] == "vgg"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_as_published(name: str) -> None:
    with torch.device("meta"):
        model = build(name, input_shape=(3, 224, 224), classes=1000)
    assert parameter_count(model) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "parameters"), [("vgg11", 9_225_610), ("vgg16", 14_719_818), ("vgg11-bn", 9_231_114)]
)
def test_small_images_have_one_linear_layer(name: str, parameters: int) -> None:
    model = build(name, input_shape=(3, 32, 32), classes=10)
    assert parameter_count(model) == parameters
    assert sum(isinstance(layer, nn.Linear) for layer in model.modules()) == 1


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 63, 40)])
def test_output_of_small_images(shape: tuple[int, ...]) -> None:
    model = build("vgg11", input_shape=shape, classes=10)
    assert model(torch.zeros(2, *shape)).shape == (2, 10)


@pytest.mark.parametrize("shape", [(3, 224, 224), (3, 64, 64), (1, 32, 96)])
def test_output_of_larger_images(shape: tuple[int, ...]) -> None:
    with torch.device("meta"):
        model = build("vgg13-bn", input_shape=shape, classes=7)
        assert sum(isinstance(layer, nn.Linear) for layer in model.modules()) == 3
        assert model(torch.zeros(2, *shape)).shape == (2, 7)


def test_the_signal_reaches_the_last_convolution() -> None:
    torch.manual_seed(0)
    model = build("vgg19", input_shape=(3, 32, 32), classes=10)
    assert isinstance(model, nn.Sequential)
    with torch.no_grad():
        assert 0.01 < model[:-1](torch.randn(8, 3, 32, 32)).std().item() < 10


@pytest.mark.parametrize(
    ("shape", "classes", "cause"),
    [
        ((32, 32), 10, r"vgg11-bn needs images of shape \(channels, height, width\)"),
        ((3, 31, 32), 10, r"32×32 pixels or more, got \(3, 31, 32\)"),
        ((0, 32, 32), 10, r"got \(0, 32, 32\)"),
        ((3, 32, 32), 0, "1 class or more, got 0"),
    ],
)
def test_refuses(shape: tuple[int, ...], classes: int, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        build("vgg11-bn", input_shape=shape, classes=classes)


def test_takes_no_options() -> None:
    with pytest.raises(UsageError, match="vgg11 takes no options but init, not depth=13"):
        build("vgg11", input_shape=(3, 32, 32), classes=10, options={"depth": 13})
