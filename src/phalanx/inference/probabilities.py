"""What makes probabilities of the outputs of a model that tells classes apart."""

from typing import Literal

import torch
from torch import Tensor

#: What makes probabilities of outputs; `shares` are of what outputs between 0 and 1 add up to.
Form = Literal["softmax", "sigmoid", "shares", "none"]

#: Losses that have outputs come near 1 for the right class, and near 0 for the others.
_OF_ONES_AND_ZEROS = ("squared-error", "absolute-error")


def probability_form(loss: str, output_activation: str | None = None) -> Form:
    """What makes probabilities of a model's outputs, by what it was trained for.

    Under binary cross-entropy, and with sigmoids of its own, every class is a yes or no by itself;
    else the probabilities of a sample add up to 1.
    """
    if loss == "binary-cross-entropy":
        return "sigmoid"
    if output_activation == "sigmoid" and loss != "cross-entropy":
        return "none"
    return "shares" if loss in _OF_ONES_AND_ZEROS else "softmax"


def probabilities(outputs: Tensor, form: Form) -> Tensor:
    """The probability of each class, in float64, a row a sample."""
    precise = outputs.to(torch.float64)
    if form == "none":
        return precise
    if form == "shares":
        return _shares(precise.clamp(0, 1))
    return precise.sigmoid() if form == "sigmoid" else precise.softmax(1)


def _shares(outputs: Tensor) -> Tensor:
    """Each output as a share of their sum; all the same where nothing speaks for any class."""
    total = outputs.sum(1, keepdim=True)
    return torch.where(total > 0, outputs / total, 1 / outputs.shape[1])
