"""Sums over samples that add up exactly over batches and ranks: never an average of averages."""

from dataclasses import dataclass

import torch
from torch import Tensor

from phalanx.comm.base import Communicator


@dataclass(frozen=True)
class Metrics:
    """The mean loss and the share of right answers over `count` samples."""

    loss: float
    accuracy: float
    count: int


class Meter:
    """Collects one rank's part of an epoch or evaluation."""

    #: Samples that are kept before their answers are counted, all at once: of small batches, one
    #: by one would take a good part of a step.
    _MOST_KEPT = 4096

    def __init__(self) -> None:
        self._loss = 0.0
        self._correct = 0
        self._count = 0
        self._kept: list[tuple[Tensor, Tensor]] = []
        self._kept_count = 0

    def add(self, loss_sum: float, outputs: Tensor | None, targets: Tensor | None) -> None:
        """Count in a batch: its loss summed over samples; None stands for no sample."""
        if outputs is None or targets is None:
            return
        self._loss += loss_sum
        count = targets.shape[0]
        self._count += count
        if outputs.dim() == 2 and not targets.is_floating_point():
            self._kept.append((outputs, targets))
            self._kept_count += count
            if self._kept_count >= self._MOST_KEPT:
                self._count_right_answers()

    def _count_right_answers(self) -> None:
        if self._kept:
            outputs, targets = (torch.cat(column) for column in zip(*self._kept, strict=True))
            self._correct += int((outputs.argmax(1) == targets).sum())
            self._kept, self._kept_count = [], 0

    @property
    def mine(self) -> Metrics:
        """This rank's part alone, for a progress display."""
        self._count_right_answers()
        return _metrics(self._loss, self._correct, self._count)

    def total(self, comm: Communicator) -> Metrics:
        """Collective. The whole of all ranks."""
        self._count_right_answers()
        sums = torch.tensor([self._loss, self._correct, self._count], dtype=torch.float64)
        comm.allreduce(sums)
        loss, correct, count = sums.tolist()
        return _metrics(loss, int(correct), int(count))


def _metrics(loss: float, correct: int, count: int) -> Metrics:
    samples = max(count, 1)
    return Metrics(loss=loss / samples, accuracy=correct / samples, count=count)
