"""Optimizers that evaluate the loss several times in a step, as LBFGS does."""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import Optimizer

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.strategies.base import Loss, Outcome


def needs_closure(optimizer: Optimizer) -> bool:
    """Whether the optimizer cannot step without evaluating the loss itself."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def refuse_closure(optimizer: Optimizer, *, strategy: str) -> None:
    """Raise UsageError for an optimizer whose evaluations a strategy's ranks cannot follow."""
    if needs_closure(optimizer):
        raise UsageError(
            f"{type(optimizer).__name__} evaluates the loss several times in a step, which ranks "
            f"of strategy '{strategy}' cannot follow: take strategy 'single' or 'allreduce', or "
            "another optimizer, such as SGD or Adam"
        )


def step_with_closure(
    comm: Communicator, optimizer: Optimizer, *, loss: Loss, evaluate: Callable[[], Outcome]
) -> Outcome:
    """Collective. One step of such an optimizer; the outcome of its first evaluation.

    `evaluate` leaves the gradient of the whole batch in every `.grad`. All ranks are given the loss
    of the whole batch, and so do the same.
    """
    outcomes: list[Outcome] = []

    def closure() -> Tensor:
        outcome = evaluate()
        outcomes.append(outcome)
        sums = torch.tensor(
            [float(outcome.loss), float(outcome.weight or 0.0)], dtype=torch.float64
        )
        comm.allreduce(sums)
        return sums[0] if loss.reduction == "sum" else sums[0] / sums[1]

    optimizer.step(closure)  # type: ignore[arg-type]
    return outcomes[0]
