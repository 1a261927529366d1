"""The residual networks of He et al. (2015) for small images: 6n + 2 layers, as on CIFAR-10."""

from itertools import pairwise
from typing import final

import torch.nn.functional as F
from torch import Tensor, nn

from phalanx.models.shapes import check_images

DEPTHS = (20, 32, 44, 56, 110, 1202)

#: Channels of the stem and of the three stages.
_CHANNELS = (16, 16, 32, 64)

#: The last two stages halve the image each; less than 2×2 pixels at the end makes no sense.
_SMALLEST = 8


def build(*, input_shape: tuple[int, ...], classes: int, depth: int) -> nn.Sequential:
    """A 3×3 stem, three stages of residual blocks of 16, 32 and 64 channels, one linear layer."""
    check_images(f"resnet{depth}", input_shape=input_shape, classes=classes, smallest=_SMALLEST)
    blocks = (depth - 2) // 6
    layers: list[nn.Module] = [
        _convolution(input_shape[0], _CHANNELS[0]),
        nn.BatchNorm2d(_CHANNELS[0]),
        nn.ReLU(),
    ]
    for width, channels in pairwise(_CHANNELS):
        layers.append(Block(width, channels, stride=1 if width == channels else 2))
        layers += [Block(channels, channels) for _ in range(blocks - 1)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_CHANNELS[-1], classes)]
    model = nn.Sequential(*layers)
    model.apply(_initialise)
    return model


@final
class Block(nn.Module):
    """Two 3×3 convolutions beside a shortcut without weights (option A of the paper)."""

    def __init__(self, width: int, channels: int, *, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride
        self.new_channels = channels - width
        self.residual = nn.Sequential(
            _convolution(width, channels, stride=stride),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            _convolution(channels, channels),
            nn.BatchNorm2d(channels),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        return F.relu(self.residual(inputs) + self._shortcut(inputs), inplace=True)

    def _shortcut(self, inputs: Tensor) -> Tensor:
        """The inputs, every other pixel of them where the stride is 2; new channels are zero."""
        if self.stride != 1:
            inputs = inputs[:, :, :: self.stride, :: self.stride]
        if self.new_channels:
            before = self.new_channels // 2
            inputs = F.pad(inputs, (0, 0, 0, 0, before, self.new_channels - before))
        return inputs


def _convolution(width: int, channels: int, *, stride: int = 1) -> nn.Conv2d:
    # The BatchNorm that follows would take a bias out again.
    return nn.Conv2d(width, channels, kernel_size=3, stride=stride, padding=1, bias=False)


def _initialise(layer: nn.Module) -> None:
    """The paper's initial weights for convolutions; torch's own elsewhere."""
    if isinstance(layer, nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
