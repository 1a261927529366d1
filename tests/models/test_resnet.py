import pytest
import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.models import build, model_names
from phalanx.models.families.resnet import DEPTHS, Block
from phalanx.models.families.resnet_imagenet import DEPTHS as IMAGENET_DEPTHS
from phalanx.models.table import parameter_count

#: With BatchNorm's scales and shifts; the paper rounds to 0.27, 0.46, 0.66, 0.85, 1.7 and 19.4
#: million.
PARAMETERS = {
    20: 269_722,
    32: 464_154,
    44: 658_586,
    56: 853_018,
    110: 1_727_962,
    1202: 19_421_274,
}


def test_every_depth_has_its_name() -> None:
    names = [f"resnet{depth}" for depth in DEPTHS]
    names += [f"resnet{depth}" for depth in IMAGENET_DEPTHS]
    assert [name for name in model_names() if name.startswith("resnet")] == names


@pytest.mark.parametrize("depth", DEPTHS)
def test_parameters_as_published(depth: int) -> None:
    with torch.device("meta"):
        model = build(f"resnet{depth}", input_shape=(3, 32, 32), classes=10)
    assert parameter_count(model) == PARAMETERS[depth]
    weighted = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(weighted) == depth


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 9, 15), (1, 8, 8)])
def test_output(shape: tuple[int, ...]) -> None:
    model = build("resnet20", input_shape=shape, classes=10)
    assert model(torch.zeros(2, *shape)).shape == (2, 10)


def test_the_stages_halve_the_image() -> None:
    model = build("resnet20", input_shape=(3, 32, 32), classes=10)
    assert isinstance(model, nn.Sequential)
    before_pooling: Tensor = model[:-3](torch.zeros(2, 3, 32, 32))
    assert before_pooling.shape == (2, 64, 8, 8)


def test_without_residual_a_block_is_its_shortcut() -> None:
    block = Block(2, 4, stride=2)
    for layer in block.residual:
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.zeros_(layer.weight)
    inputs = torch.rand(3, 2, 6, 6)
    output = block(inputs)
    assert torch.equal(output[:, 1:3], inputs[:, :, ::2, ::2])
    assert not output[:, [0, 3]].any()


@pytest.mark.parametrize(
    ("shape", "classes", "cause"),
    [
        ((64,), 10, r"resnet20 needs images of shape \(channels, height, width\), got \(64,\)"),
        ((1, 7, 8), 10, r"8×8 pixels or more, got \(1, 7, 8\)"),
        ((0, 32, 32), 10, r"got \(0, 32, 32\)"),
        ((3, 32, 32), 0, "1 class or more, got 0"),
    ],
)
def test_refuses(shape: tuple[int, ...], classes: int, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        build("resnet20", input_shape=shape, classes=classes)
