"""The small networks that PyDTNN defines for itself: its simplecnn, and its short VGGs.

Initial weights are drawn as PyDTNN draws them, and biases begin at zero.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import init

from phalanx.models.shapes import check_images


def build(
    *, input_shape: tuple[int, ...], classes: int, name: str, **shape: object
) -> nn.Sequential:
    """The network of this name: see `_simplecnn` and `_short_vgg` for what makes its shape."""
    made: Callable[..., nn.Sequential] = _simplecnn if "simplecnn" in name else _short_vgg
    return made(name, input_shape, classes, **shape)


def _simplecnn(
    name: str,
    input_shape: tuple[int, ...],
    classes: int,
    *,
    padding: int = 0,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Two 3×3 convolutions of 4 and 8 channels, one 2×2 pooling, two linear layers."""
    lost = 4 - 4 * padding
    check_images(name, input_shape=input_shape, classes=classes, smallest=lost + 2)
    channels, *sides = input_shape
    height, width = ((side - lost) // 2 for side in sides)
    model = nn.Sequential(
        *(nn.Conv2d(channels, 4, kernel_size=3, padding=padding), nn.ReLU()),
        *(nn.Conv2d(4, 8, kernel_size=3, padding=padding), nn.ReLU()),
        nn.MaxPool2d(2),
        nn.Flatten(),
        *(nn.Linear(8 * height * width, 128), nn.ReLU()),
        *([nn.Dropout(dropout)] if dropout else []),
        nn.Linear(128, classes),
    )
    _initialise(model, init.xavier_uniform_)
    return model


def _short_vgg(
    name: str,
    input_shape: tuple[int, ...],
    classes: int,
    *,
    stages: int,
    width: int = 128,
    dropout: Sequence[float] = (),
    batch_norm: bool = False,
) -> nn.Sequential:
    """Stages of two 3×3 convolutions and a pooling, of 32, 64 and 128 channels; two linear layers.

    `dropout` has the shares that are dropped after each stage and after the first linear layer.
    """
    check_images(name, input_shape=input_shape, classes=classes, smallest=2**stages)
    channels = [input_shape[0], 32, 64, 128][: stages + 1]
    rates = [*dropout] or [0.0] * (stages + 1)
    layers: list[nn.Module] = []
    for (before, after), rate in zip(pairwise(channels), rates, strict=False):
        for inputs in (before, after):
            layers += [nn.Conv2d(inputs, after, kernel_size=3, padding=1), nn.ReLU()]
            layers += [nn.BatchNorm2d(after)] if batch_norm else []
        layers += [nn.MaxPool2d(2), *([nn.Dropout(rate)] if rate else [])]
    left = channels[-1] * (input_shape[1] >> stages) * (input_shape[2] >> stages)
    layers += [nn.Flatten(), nn.Linear(left, width), nn.ReLU()]
    layers += [nn.BatchNorm1d(width)] if batch_norm else []
    layers += [nn.Dropout(rates[-1])] if rates[-1] else []
    last = nn.Linear(width, classes)
    model = nn.Sequential(*layers, last)
    _initialise(model, _he_uniform)
    if not batch_norm:  # which draws its last layer as it draws all others
        init.xavier_uniform_(last.weight)
    return model


def _he_uniform(weight: Tensor) -> Tensor:
    return init.kaiming_uniform_(weight, nonlinearity="relu")


def _initialise(model: nn.Sequential, fill: Callable[[Tensor], Tensor]) -> None:
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            fill(layer.weight)
            assert layer.bias is not None
            init.zeros_(layer.bias)
