"""Outputs and targets as rows, one for each answer that is right or wrong, or near or far."""

from torch import Tensor

from phalanx.train.torch_losses import IGNORED


def is_class(outputs: Tensor, targets: Tensor) -> bool:
    """Whether targets are the class of a sample, or of each of its tokens."""
    alike = outputs.dim() == targets.dim() + 1 and outputs.shape[2:] == targets.shape[1:]
    return alike and not targets.is_floating_point()


def are_numbers(outputs: Tensor, targets: Tensor) -> bool:
    """Whether targets are a row of numbers a sample, such as outputs are."""
    return targets.is_floating_point() and outputs.dim() == 2 and outputs.shape == targets.shape


def by_answer(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """A row for each answer: a sample has one, or one for each of its tokens.

    Of tokens, those that no loss looks at are left out.
    """
    if targets.dim() == 1:
        return outputs, targets
    rows, wanted = outputs.movedim(1, -1).flatten(0, -2), targets.flatten()
    counted = wanted != IGNORED
    return (rows, wanted) if counted.all() else (rows[counted], wanted[counted])
