"""Whether a model answers with numbers: the largest of several NaNs is the first, and no answer."""

import math

from torch import Tensor, nn

from phalanx.errors import RunError
from phalanx.models.in_parts import dtype_of


def check_outputs(model: nn.Module, outputs: Tensor, *, weights: object) -> None:
    """Raise a RunError unless all outputs, a row a sample, are finite; `weights` is their file."""
    wrong = (~outputs.isfinite().flatten(1).all(1)).nonzero().flatten()
    if len(wrong):
        raise RunError(
            f"{weights}: the model has no finite outputs for {len(wrong):,} of {len(outputs):,} "
            f"samples, the first of them at index {int(wrong[0])}: {_cause(model)}"
        )


def check_loss(model: nn.Module, loss: float, *, weights: object) -> None:
    """Raise a RunError unless a loss over samples is finite: the other metrics mean nothing."""
    if not math.isfinite(loss):
        raise RunError(f"{weights}: the model's loss is {loss}: {_cause(model)}")


def _cause(model: nn.Module) -> str:
    damaged = [name for name, one in model.named_parameters() if not bool(one.isfinite().all())]
    if damaged:
        return (
            f"its weights are not finite either ({damaged[0]}): train it again, with a smaller "
            "--learning-rate or with --clip-norm"
        )
    return (
        f"its weights are finite, but samples take it beyond what {_precision(model)} holds: are "
        "they scaled as those of the training were?"
    )


def _precision(model: nn.Module) -> str:
    return str(dtype_of(model)).removeprefix("torch.")
