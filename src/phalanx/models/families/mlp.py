"""The multilayer perceptron: fully connected layers over inputs of any shape."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from phalanx.models.options import ACTIVATION, HIDDEN, OUTPUT_ACTIVATION, STANDARDISE
from phalanx.models.shapes import check_inputs

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
    output_activation: str = "none",
    standardise: bool = False,
) -> nn.Sequential:
    """Flatten, then linear layers with the activation between them; no hidden layer is fine.

    With `standardise` every linear layer but the first reads, sample by sample, activations of
    mean 0 and standard deviation 1 over the features. An `output_activation` follows the last one.
    """
    HIDDEN.check(hidden)
    ACTIVATION.check(activation)
    OUTPUT_ACTIVATION.check(output_activation)
    STANDARDISE.check(standardise)
    check_inputs("mlp" if hidden else "logistic", input_shape=input_shape, classes=classes)
    layers: list[nn.Module] = [nn.Flatten()]
    for width, next_width in pairwise([math.prod(input_shape), *hidden]):
        layers += [nn.Linear(width, next_width), _ACTIVATIONS[activation]()]
        if standardise:
            layers.append(_standardise(next_width))
    last = hidden[-1] if hidden else math.prod(input_shape)
    layers.append(nn.Linear(last, classes))
    if output_activation != "none":
        layers.append(_ACTIVATIONS[output_activation]())
    return nn.Sequential(*layers)


def _standardise(width: int) -> nn.Module:
    """(x - mean) / √(variance + 1e-5) over a sample's features, without weights.

    The small term keeps features that are all the same from dividing by zero: they become 0.
    """
    return nn.LayerNorm(width, elementwise_affine=False)
