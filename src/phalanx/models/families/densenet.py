"""The densely connected networks of Huang et al. (2016), with a stem for small images besides."""

from typing import final

import torch
from torch import Tensor, nn

from phalanx.models.families.units import classifier, sequential, stem
from phalanx.models.shapes import check_images

#: By the number of layers with weights: channels that each layer adds, and layers in each of the
#: four stages. The stem has twice as many channels as a layer adds.
_SIZES = {
    121: (32, (6, 12, 24, 16)),
    161: (48, (6, 12, 36, 24)),
    169: (32, (6, 12, 32, 32)),
    201: (32, (6, 12, 48, 32)),
}
DEPTHS = tuple(_SIZES)

#: A layer's 1×1 convolution leaves this many times the channels that the layer adds.
_BOTTLENECK = 4

#: The transitions between stages halve the image; less than 2×2 pixels at the end makes no sense.
_SMALLEST = 16


def build(
    *, input_shape: tuple[int, ...], classes: int, depth: int, growth: int | None = None
) -> nn.Sequential:
    """A stem, four stages of dense layers with transitions between them, one linear layer.

    Images of 64×64 pixels or more get the published stem, a 7×7 convolution at stride 2 and a
    pooling; smaller ones a 3×3 convolution that keeps their size. A layer adds as many channels as
    published, or `growth`.
    """
    name = f"densenet{depth}" + ("" if growth is None else f"-k{growth}")
    check_images(name, input_shape=input_shape, classes=classes, smallest=_SMALLEST)
    published, stages = _SIZES[depth]
    growth = published if growth is None else growth
    width = 2 * growth
    layers = stem(input_shape, width)
    for stage, count in enumerate(stages):
        if stage > 0:
            layers.append(_transition(width))
            width //= 2
        for _ in range(count):
            layers.append(DenseLayer(width, growth))
            width += growth
    layers.append(nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(inplace=True)))
    return sequential([*layers, *classifier(width, classes)])


@final
class DenseLayer(nn.Module):
    """The input, and new channels made from all of it."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        inner = _BOTTLENECK * growth
        self.new = nn.Sequential(
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, inner, kernel_size=1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, growth, kernel_size=3, padding=1, bias=False),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat([inputs, self.new(inputs)], dim=1)


def _transition(width: int) -> nn.Sequential:
    """Half the channels, and half the height and width."""
    return nn.Sequential(
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width // 2, kernel_size=1, bias=False),
        nn.AvgPool2d(2),
    )
