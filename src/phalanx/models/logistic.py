"""Multinomial logistic regression: one linear layer over inputs of any shape."""

import math

from torch import nn

from phalanx.models.shapes import check_inputs


def build(*, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """Flatten, then one linear layer; the cross-entropy loss makes it logistic."""
    check_inputs("logistic", input_shape=input_shape, classes=classes)
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), classes))
