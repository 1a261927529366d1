"""LeNet-5 of LeCun et al. (1998), with means instead of trained subsampling and a linear output."""

from torch import nn

from phalanx.models.shapes import check_images

#: Two unpadded 5×5 convolutions, a halving after each, leave 1×1 pixel of it.
_SMALLEST = 12

#: The paper's size; images below it are padded by two pixels, as MNIST's 28×28 are there.
_PUBLISHED = 32


def build(*, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Two 5×5 convolutions of 6 and 16 channels, each halved, and linear layers of 120 and 84."""
    check_images("lenet5", input_shape=input_shape, classes=classes, smallest=_SMALLEST)
    channels, height, width = input_shape
    padding = 2 if min(height, width) < _PUBLISHED else 0
    features = 16 * _left(height, padding) * _left(width, padding)
    return nn.Sequential(
        nn.Conv2d(channels, 6, kernel_size=5, padding=padding),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, kernel_size=5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(features, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, classes),
    )


def _left(pixels: int, padding: int) -> int:
    """The pixels that the convolutions and halvings leave of a side."""
    return ((pixels + 2 * padding - 4) // 2 - 4) // 2
