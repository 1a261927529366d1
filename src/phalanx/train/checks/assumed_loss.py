"""Whether a loss of a user's own is the mean over samples, or the sum, that it is taken for.

Where batches are computed in parts, only such a loss is the same as over the whole. Nobody can see
that in a function, so the first steps of a training try it, on the outputs that they have anyway.
"""

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.strategies.base import Loss, Outcome, Task

#: In so many steps: samples of some batches may happen to weigh the same.
_STEPS = 8
_MOST_SAMPLES = 32
_WAYS_OUT = (
    "say how it goes: phalanx.Loss(function, 'sum') for a sum; phalanx.Loss(function, weigh=…) for "
    "a weighted mean, with the weighted sum as the function and the weight of some targets as "
    "`weigh`; phalanx.Loss(function) if a mean is meant nevertheless; or train on one rank, "
    "without shards and accumulation"
)


class AssumedLoss:
    """Looks at the first steps of a training, if they compute batches in parts."""

    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm, self._loss = comm, task.loss
        in_parts = comm.size > 1 or task.shards is not None or task.accumulate > 1
        self.steps_left = _STEPS if task.loss.assumed and in_parts else 0

    def look(self, outcome: Outcome) -> None:
        """Collective. Refuse the loss if it is something else, judging by a step's outputs."""
        self.steps_left -= 1
        found = None
        if outcome.outputs is not None and outcome.targets is not None:
            found = mistake(self._loss, outcome.outputs, outcome.targets)
        everyone = self._comm.allgather_objects(found)
        for one in everyone:
            if one is not None:
                raise UsageError(f"{one}: {_WAYS_OUT}")


@torch.no_grad()
def mistake(loss: Loss, outputs: Tensor, targets: Tensor) -> str | None:
    """What makes a loss another than it is taken for, if these samples show it."""
    count = min(len(targets), _MOST_SAMPLES)
    name = getattr(loss.function, "__name__", type(loss.function).__name__)
    for cut in sorted({1, count // 2} - {0, count}):
        pieces = [slice(0, count), slice(0, cut), slice(cut, count)]
        try:
            with torch.random.fork_rng(devices=[]):
                whole, first, second = (
                    loss.function(outputs[piece], targets[piece]).to(torch.float64)
                    for piece in pieces
                )
        except Exception as error:
            return f"the loss {name} cannot be computed of some samples of a batch ({error})"
        mean = (cut * first + (count - cut) * second) / count
        is_mean, is_sum = (
            torch.allclose(whole, one, rtol=_tolerance(outputs), atol=1e-6, equal_nan=True)
            for one in (mean, first + second)
        )
        if not (is_mean if loss.reduction == "mean" else is_sum):
            other = is_sum if loss.reduction == "mean" else is_mean
            what = ("a sum" if is_sum else "a mean") if other else "neither a mean nor a sum"
            return (
                f"the loss {name} is taken for a {loss.reduction} over the samples, and is {what}"
            )
    return None


def _tolerance(outputs: Tensor) -> float:
    return 1e-3 if outputs.dtype in (torch.float32, torch.float64) else 3e-2
