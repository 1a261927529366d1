"""GoogLeNet of Szegedy et al. (2014), with BatchNorm and without auxiliary classifiers.

As in the weights that torchvision publishes, 3×3 kernels stand where the paper has 5×5.
"""

from functools import partial

from torch import nn

from phalanx.models.families import units
from phalanx.models.families.units import Branches, classifier, sequential
from phalanx.models.shapes import check_images, is_large

#: Inception blocks by stage. Channels of a block's four branches: 1×1; 1×1 and 3×3; 1×1 and the
#: second 3×3; the 1×1 after a pooling.
_STAGES = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)

#: The published network's BatchNorm has an epsilon of its own.
_unit = partial(units.unit, epsilon=1e-3)

#: Small images are halved twice; less than 2×2 pixels at the end makes no sense.
_SMALLEST = 8


def build(*, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Three convolutions, nine inception blocks in three stages, one linear layer.

    The published first three halvings are left out for images below 64×64 pixels, whose first
    convolution is 3×3.
    """
    check_images("googlenet", input_shape=input_shape, classes=classes, smallest=_SMALLEST)
    large = is_large(input_shape)
    layers: list[nn.Module] = [
        _unit(input_shape[0], 64, kernel=7 if large else 3, stride=2 if large else 1),
        *([_halving(3)] if large else []),
        _unit(64, 64),
        _unit(64, 192, kernel=3),
        *([_halving(3)] if large else []),
    ]
    width = 192
    for stage, blocks in enumerate(_STAGES):
        if stage > 0:
            layers.append(_halving(3 if stage == 1 else 2))
        for sizes in blocks:
            layers.append(_inception(width, sizes))
            width = sizes[0] + sizes[2] + sizes[4] + sizes[5]
    return sequential([*layers, *classifier(width, classes, dropout=0.2)])


def _halving(kernel: int) -> nn.MaxPool2d:
    return nn.MaxPool2d(kernel, stride=2, ceil_mode=True)


def _inception(width: int, sizes: tuple[int, int, int, int, int, int]) -> Branches:
    one, reduce_first, first, reduce_second, second, pooled = sizes
    return Branches(
        _unit(width, one),
        nn.Sequential(
            _unit(width, reduce_first),
            _unit(reduce_first, first, kernel=3),
        ),
        nn.Sequential(
            _unit(width, reduce_second),
            _unit(reduce_second, second, kernel=3),
        ),
        nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), _unit(width, pooled)),
    )
