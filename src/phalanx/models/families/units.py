"""What the convolutional families are built from: convolution units, stems, parallel branches.

A model is an `nn.Sequential` of such blocks, and a pipeline may cut it between any two of them. The
first block of a stage reads a tensor that autograd guards, so no block may change its input in
place: ReLU does so inside a block alone, after a layer of the same block.
"""

from typing import TypeAlias, final

import torch
from torch import Tensor, nn

from phalanx.models.shapes import is_large

#: The same for height and width, or one of each.
Size: TypeAlias = int | tuple[int, int]


def unit(
    width: int,
    channels: int,
    *,
    kernel: Size = 1,
    stride: int = 1,
    padding: Size | None = None,
    groups: int = 1,
    epsilon: float = 1e-5,
    relu: bool = True,
) -> nn.Sequential:
    """A convolution, BatchNorm and ReLU; `padding` None keeps the image's size at stride 1."""
    if padding is None:
        padding = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
    layers: list[nn.Module] = [
        # BatchNorm would take a bias out again.
        nn.Conv2d(width, channels, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(channels, eps=epsilon),
    ]
    return nn.Sequential(*layers, *([nn.ReLU(inplace=True)] if relu else []))


def stem(input_shape: tuple[int, ...], channels: int) -> list[nn.Module]:
    """Quarter large images; small ones get a 3×3 convolution that keeps their size."""
    if is_large(input_shape):
        return [unit(input_shape[0], channels, kernel=7, stride=2), nn.MaxPool2d(3, 2, padding=1)]
    return [unit(input_shape[0], channels, kernel=3)]


def classifier(width: int, classes: int, *, dropout: float = 0.0) -> list[nn.Module]:
    """The mean over all pixels and one linear layer."""
    dropped = [nn.Dropout(dropout)] if dropout else []
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *dropped, nn.Linear(width, classes)]


@final
class Branches(nn.Module):
    """Several ways from the same input; their channels are put one after the other."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat([branch(inputs) for branch in self.branches], dim=1)


def sequential(layers: list[nn.Module]) -> nn.Sequential:
    """The model of these layers: He's initial weights for convolutions, torch's own elsewhere."""
    model = nn.Sequential(*layers)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model
