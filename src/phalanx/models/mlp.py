"""The multilayer perceptron: fully connected layers over inputs of any shape."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from phalanx.errors import UsageError
from phalanx.models.options import check_activation, check_hidden

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}


def build(
    *,
    input_shape: tuple[int, ...],
    classes: int,
    hidden: Sequence[int] = (128,),
    activation: str = "relu",
) -> nn.Sequential:
    """Flatten, then linear layers with the activation between them; no hidden layer is fine."""
    check_hidden(hidden)
    check_activation(activation)
    widths = [math.prod(input_shape), *hidden, classes]
    if not input_shape or min(widths) < 1:
        raise UsageError(f"mlp cannot map inputs of shape {input_shape} to {classes} classes")
    layers: list[nn.Module] = [nn.Flatten()]
    for width, next_width in pairwise(widths):
        layers += [nn.Linear(width, next_width), _ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])
