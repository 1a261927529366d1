"""A small convolutional network for images of any size."""

from torch import nn

from phalanx.models.shapes import check_images


def build(*, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Two 3×3 convolutions of 4 and 8 channels, one 2×2 pooling, two linear layers."""
    check_images("simplecnn", input_shape=input_shape, classes=classes, smallest=2)
    channels, height, width = input_shape
    return nn.Sequential(
        nn.Conv2d(channels, 4, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 8, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * (height // 2) * (width // 2), 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )
