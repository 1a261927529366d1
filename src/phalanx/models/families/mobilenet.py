"""MobileNet v1 of Howard et al. (2017): depthwise separable convolutions."""

from torch import nn

from phalanx.models.families.units import classifier, sequential, unit
from phalanx.models.shapes import check_images, is_large

_STEM = 32

#: Channels and stride of each separable convolution.
_BLOCKS = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)

#: Small images are halved four times, rounded up; less than 2×2 pixels at the end makes no sense.
_SMALLEST = 17


def build(*, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """A 3×3 stem, thirteen separable convolutions, one linear layer.

    The stem halves images of 64×64 pixels or more, and keeps the size of smaller ones.
    """
    check_images("mobilenet-v1", input_shape=input_shape, classes=classes, smallest=_SMALLEST)
    stride = 2 if is_large(input_shape) else 1
    layers: list[nn.Module] = [unit(input_shape[0], _STEM, kernel=3, stride=stride)]
    width = _STEM
    for channels, stride in _BLOCKS:
        layers.append(_separable(width, channels, stride=stride))
        width = channels
    return sequential([*layers, *classifier(width, classes)])


def _separable(width: int, channels: int, *, stride: int) -> nn.Sequential:
    """A 3×3 convolution of each channel by itself, then a 1×1 convolution across channels."""
    return nn.Sequential(
        unit(width, width, kernel=3, stride=stride, groups=width), unit(width, channels)
    )
