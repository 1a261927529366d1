"""Whether an objective of a user's own is the mean that it is taken for.

Where batches are computed in parts, only a mean over the samples, or over what they weigh, is the
same as over the whole. The first steps of a training try it on the samples that they have anyway.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, plain
from phalanx.data.own.nest import Nest, move
from phalanx.errors import UsageError
from phalanx.models.in_parts import device_of
from phalanx.models.modes import kept_modes
from phalanx.strategies.base import Objective, Outcome, Task
from phalanx.strategies.building_blocks.passes import evaluate_objective, precision
from phalanx.strategies.building_blocks.preserve import preserved

_STEPS = 3
_MOST_SAMPLES = 32
#: Two numbers to draw by: an objective that differs between them has noise in it.
_SEEDS = (1, 2)
_WAYS_OUT = (
    "if it is a mean over something else, say what a batch has of that: "
    "phalanx.Objective(function, weigh=…); if it is a sum, divide it by the number of samples; "
    "phalanx.Objective(function) if each part of a batch is to have its own nevertheless; or train "
    "on one rank, without shards and accumulation"
)


class AssumedObjective:
    """Looks at the first steps of a training, if they compute batches in parts.

    Who gives an `Objective` without a weight has said that it is a mean, and is believed.
    """

    def __init__(self, comm: Communicator, task: Task, *, in_parts: bool) -> None:
        self._comm, self._task = comm, task
        looks = task.objective is not None and (
            task.objective.assumed or bool(task.objective.weigh)
        )
        self.steps_left = _STEPS if looks and in_parts else 0

    def look(self, outcome: Outcome, batch: Batch) -> None:
        """Collective. Refuse the objective if a step's samples show it to be something else.

        Every rank's model must be whole.
        """
        self.steps_left -= 1
        found = None
        if outcome.pieces:
            some = outcome.pieces[0]  # of one sample alone, nothing could be told
            found = mistake(self._task, some.batch if some.samples > 1 else plain(batch.targets()))
        for one in self._comm.allgather_objects(found):
            if one is not None:
                raise UsageError(f"{one}: {_WAYS_OUT}")


@torch.no_grad()
def mistake(task: Task, batch: object) -> str | None:
    """What makes an objective another than it is taken for, if these samples show it."""
    samples, objective = Nest(move(batch, device_of(task.model))), task.objective
    assert objective is not None
    count = min(len(samples), _MOST_SAMPLES)
    middle = count // 2
    pieces = [samples[:count], samples[:middle], samples[middle:count]]
    weights = [_weight(objective, piece) for piece in pieces]
    if middle == 0 or weights[0] == 0:
        return None
    name = getattr(objective.function, "__name__", type(objective.function).__name__)
    with _undisturbed(task.model):
        try:
            whole, other = (_value(task, pieces[0], seed) for seed in _SEEDS)
        except Exception:  # of a model that is only ever trained, say: nothing is known of it
            return None
        if whole != other:
            return None
        try:
            halves = [_value(task, one, _SEEDS[0]) if len(one) else 0.0 for one in pieces[1:]]
        except Exception as error:
            return f"the objective {name} cannot be computed of some samples of a batch ({error})"
    parts = sum(v * w for v, w in zip(halves, weights[1:], strict=True) if w) / weights[0]
    if abs(whole - parts) <= _tolerance(task) * max(abs(whole), abs(parts)) + 1e-6:
        return None
    over = "what weigh= says" if objective.weigh else "the samples"
    return (
        f"the objective {name} is taken for a mean over {over}, and over {count} samples gives "
        f"{whole:.6g} where its halves make {parts:.6g}"
    )


def _weight(objective: Objective, piece: Nest) -> float:
    return len(piece) if objective.weigh is None else float(objective.weigh(piece.value))


def _value(task: Task, piece: Nest, seed: int) -> float:
    assert task.objective is not None
    torch.manual_seed(seed)
    with precision(task.model, task.autocast):
        return float(evaluate_objective(task.objective, task.model, piece.value)[0])


def _tolerance(task: Task) -> float:
    first = next(task.model.parameters(), None)
    exact = first is None or first.dtype in (torch.float32, torch.float64)
    return 1e-3 if exact and task.autocast is None else 3e-2


@contextmanager
def _undisturbed(model: nn.Module) -> Iterator[None]:
    """In evaluation, and afterwards as before: modes, buffers and random numbers."""
    with kept_modes(model), preserved([model]):
        model.eval()
        yield
