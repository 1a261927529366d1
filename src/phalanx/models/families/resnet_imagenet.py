"""The residual networks of He et al. (2015) for ImageNet, with a stem for small images besides.

As in most published weights, a bottleneck that halves the image does so in its 3×3 convolution.
"""

from typing import final

import torch.nn.functional as F
from torch import Tensor, nn

from phalanx.models.families.units import classifier, sequential, stem, unit
from phalanx.models.shapes import check_images

#: Blocks in each of the four stages, by the number of layers with weights.
_STAGES = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
_CHANNELS = (64, 128, 256, 512)
DEPTHS = tuple(_STAGES)

#: From this depth on a block is a bottleneck, with four times as many channels at its end.
_BOTTLENECKS_FROM = 50
_EXPANSION = 4

#: The last three stages halve the image each; less than 2×2 pixels at the end makes no sense.
_SMALLEST = 16


def build(*, input_shape: tuple[int, ...], classes: int, depth: int) -> nn.Sequential:
    """A stem, four stages of residual blocks of 64, 128, 256 and 512 channels, one linear layer.

    Images of 64×64 pixels or more get the published stem, a 7×7 convolution at stride 2 and a
    pooling; smaller ones a 3×3 convolution that keeps their size.
    """
    check_images(f"resnet{depth}", input_shape=input_shape, classes=classes, smallest=_SMALLEST)
    expansion = _EXPANSION if depth >= _BOTTLENECKS_FROM else 1
    width = _CHANNELS[0]
    layers = stem(input_shape, width)
    for stage, (count, channels) in enumerate(zip(_STAGES[depth], _CHANNELS, strict=True)):
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            layers.append(Block(width, channels, stride=stride, expansion=expansion))
            width = channels * expansion
    return sequential([*layers, *classifier(width, classes)])


@final
class Block(nn.Module):
    """Convolutions beside a shortcut, which has weights where the shape changes (option B).

    Two 3×3 convolutions if `expansion` is 1; otherwise a bottleneck of 1×1, 3×3 and 1×1.
    """

    def __init__(self, width: int, channels: int, *, stride: int, expansion: int) -> None:
        super().__init__()
        outputs = channels * expansion
        if expansion == 1:
            units = [
                unit(width, channels, kernel=3, stride=stride),
                unit(channels, channels, kernel=3, relu=False),
            ]
        else:
            units = [
                unit(width, channels),
                unit(channels, channels, kernel=3, stride=stride),
                unit(channels, outputs, relu=False),
            ]
        self.residual = nn.Sequential(*units)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or width != outputs:
            self.shortcut = unit(width, outputs, stride=stride, relu=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return F.relu(self.residual(inputs) + self.shortcut(inputs), inplace=True)
