"""How well outputs order samples, label by label: AUROC and average precision, exactly.

Both depend on all samples at once, so that scores are gathered; in the order of the samples, and so
with the same bits on any number of ranks.
"""

import math
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.strategies.base import Outcome
from phalanx.train.measures.rows import are_numbers, by_answer, is_class

Scored = list[tuple[Tensor, Tensor]]


def auroc(scores: Tensor, there: Tensor) -> float:
    """How likely a sample with the label has a larger score than one without; a tie is half of it.

    NaN where all samples have it, or none.
    """
    positives = int(there.sum())
    negatives = len(there) - positives
    if not positives or not negatives:
        return math.nan
    _, place, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    sizes = counts.to(torch.float64)
    ranks = (sizes.cumsum(0) - (sizes - 1) / 2)[place]  # those of a tie share their mean
    above = float(ranks[there].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)


def average_precision(scores: Tensor, there: Tensor) -> float:
    """The mean over recalls of the precision of those with at least as large a score.

    NaN where no sample has the label.
    """
    positives = int(there.sum())
    if not positives:
        return math.nan
    values, place, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    right = torch.bincount(place[there], minlength=len(values)).flip(0).to(torch.float64)
    precision = right.cumsum(0) / counts.flip(0).cumsum(0)
    return float((precision * right).sum() / positives)


RANKED: dict[str, Callable[[Tensor, Tensor], float]] = {
    "auroc": auroc,
    "average-precision": average_precision,
}


@final
class Scores:
    """One rank's scores of an evaluation, kept if any of these metrics needs them all at once."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [name for name in names if name in RANKED]
        self._scored: Scored = []

    def add(self, outcome: Outcome) -> None:
        """Keep a chunk, if its targets are classes or labels."""
        outputs, targets = outcome.outputs, outcome.targets
        if not self._names or outputs is None or targets is None:
            return
        if is_class(outputs, targets):
            self._scored.append(by_answer(outputs, targets))
        elif are_numbers(outputs, targets):
            self._scored.append((outputs, targets))

    def total(self, comm: Communicator) -> tuple[dict[str, float], dict[str, list[float]]]:
        """Collective. The metrics over all labels, and of each if there are several."""
        if not self._names:
            return {}, {}
        whole, each = ranked(comm, self._scored, self._names)
        if not each[self._names[0]]:  # nothing that is there or not
            return {}, {}
        return whole, {} if len(each[self._names[0]]) == 1 else each


def ranked(
    comm: Communicator, scored: Scored, names: Sequence[str]
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Collective. The means over the labels that have a value, and the values of each label.

    `scored` are this rank's outputs and targets, those of rank 0 being first of all. Where targets
    are classes, each is a label against all others, and its score is its probability.
    """
    columns = comm.allgather_objects(scored[0][0].shape[1] if scored else 0)
    shape = max(columns)
    scores = _gathered(comm, [_scores(*one) for one in scored], columns=shape)
    there = _gathered(comm, [_there(*one) for one in scored], columns=shape)
    values = None
    if comm.rank == 0:
        values = {
            name: [RANKED[name](one, has > 0) for one, has in zip(scores.T, there.T, strict=True)]
            for name in names
        }
    found = comm.broadcast_object(values) or {}
    return {name: _mean(one) for name, one in found.items()}, found


def _scores(outputs: Tensor, targets: Tensor) -> Tensor:
    precise = outputs.detach().to("cpu", torch.float64)
    return precise if targets.is_floating_point() else precise.softmax(1)


def _there(outputs: Tensor, targets: Tensor) -> Tensor:
    if targets.is_floating_point():
        return (targets > 0.5).to("cpu", torch.float64)
    classes = torch.arange(outputs.shape[1], device=targets.device)
    return (targets[:, None] == classes).to("cpu", torch.float64)


def _gathered(comm: Communicator, parts: list[Tensor], *, columns: int) -> Tensor:
    """Collective. The rows of all ranks, on rank 0."""
    mine = torch.cat(parts) if parts else torch.empty(0, columns, dtype=torch.float64)
    counts = comm.allgather_objects(len(mine))
    whole = torch.empty(sum(counts), columns, dtype=torch.float64) if comm.rank == 0 else None
    comm.gather(mine.contiguous(), whole, counts=counts)
    return mine if whole is None else whole


def _mean(values: Sequence[float]) -> float:
    there = [value for value in values if not math.isnan(value)]
    return math.fsum(there) / len(there) if there else math.nan
