"""AlexNet of Krizhevsky (2014, "One weird trick"), for large images and for small ones."""

from torch import nn

from phalanx.models.families.units import sequential
from phalanx.models.shapes import check_images, is_large

#: Small images are halved three times; less than 2×2 pixels at the end makes no sense.
_SMALLEST = 16

#: Channels and kernel of the convolutions after the first.
_CONVOLUTIONS = ((192, 5), (384, 3), (256, 3), (256, 3))
_WIDTH = 256


def build(*, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Five convolutions, three poolings and a classifier.

    Images of 64×64 pixels or more get the published network: an 11×11 convolution at stride 4
    and two hidden layers of 4096. Smaller ones get a first convolution of 3×3 that keeps their
    size, and one linear layer, as is usual for CIFAR.
    """
    check_images("alexnet", input_shape=input_shape, classes=classes, smallest=_SMALLEST)
    if is_large(input_shape):
        first = nn.Conv2d(input_shape[0], 64, kernel_size=11, stride=4, padding=2)
        layers = _convolutions(first, pooling=3) + _published_classifier(classes)
    else:
        first = nn.Conv2d(input_shape[0], 64, kernel_size=3, padding=1)
        pixels = (input_shape[1] // 8) * (input_shape[2] // 8)
        layers = _convolutions(first, pooling=2)
        layers += [nn.Flatten(), nn.Linear(_WIDTH * pixels, classes)]
    return sequential(layers)


def _convolutions(first: nn.Conv2d, *, pooling: int) -> list[nn.Module]:
    """The convolutions; a pooling follows the first, the second and the last."""
    layers: list[nn.Module] = [first, nn.ReLU(), nn.MaxPool2d(pooling, stride=2)]
    width = first.out_channels
    for index, (channels, kernel) in enumerate(_CONVOLUTIONS):
        layers += [nn.Conv2d(width, channels, kernel, padding=kernel // 2), nn.ReLU()]
        if index in (0, len(_CONVOLUTIONS) - 1):
            layers.append(nn.MaxPool2d(pooling, stride=2))
        width = channels
    return layers


def _published_classifier(classes: int) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.AdaptiveAvgPool2d(6), nn.Flatten()]
    for width in (_WIDTH * 6 * 6, 4096):
        layers += [nn.Dropout(), nn.Linear(width, 4096), nn.ReLU()]
    return [*layers, nn.Linear(4096, classes)]
