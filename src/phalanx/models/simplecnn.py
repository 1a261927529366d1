"""A small convolutional network for images of any size."""

from torch import nn

from phalanx.errors import UsageError


def build(*, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Two 3×3 convolutions of 4 and 8 channels, one 2×2 pooling, two linear layers."""
    if len(input_shape) != 3:
        raise UsageError(
            f"simplecnn needs images of shape (channels, height, width), got {input_shape}"
        )
    channels, height, width = input_shape
    if channels < 1 or height < 2 or width < 2:
        raise UsageError(f"simplecnn needs images of 2×2 pixels or more, got {input_shape}")
    if classes < 1:
        raise UsageError(f"simplecnn needs 1 class or more, got {classes}")
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
