"""Sums over samples that add up exactly over batches and ranks: never an average of averages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.settings.metrics import BY_CLASS
from phalanx.state import Share, State
from phalanx.state.parts import Part
from phalanx.strategies.base import TextTable
from phalanx.train.losses import one_hot, widened

#: Metrics that are a number a sample, summed here over the samples of a batch.
_SUMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "accuracy": lambda outputs, targets: (outputs.argmax(1) == targets).sum(),
    "top-5": lambda outputs, targets: (
        outputs.topk(min(5, outputs.shape[1]), dim=1).indices == targets[:, None]
    ).sum(),
    "mse": lambda outputs, targets: (
        (outputs - one_hot(outputs, targets)).square().mean(1).sum(dtype=torch.float64)
    ),
    "mae": lambda outputs, targets: (
        (outputs - one_hot(outputs, targets)).abs().mean(1).sum(dtype=torch.float64)
    ),
    "hinge": lambda outputs, targets: F.multi_margin_loss(
        widened(outputs), targets, reduction="sum"
    ),
}


@dataclass(frozen=True)
class Metrics:
    """The mean loss and the share of right answers over `count` samples, and what else was asked.

    `confusion` has a row for each class that is right, a column for each that was the answer.
    """

    loss: float
    accuracy: float
    count: int
    more: dict[str, float] = field(default_factory=dict)
    confusion: list[list[int]] | None = None

    def precision(self) -> list[float]:
        """For each class, how many of those answers were right; 0 where there were none."""
        assert self.confusion is not None
        columns = zip(*self.confusion, strict=True)
        return [_share(column[index], sum(column)) for index, column in enumerate(columns)]

    def recall(self) -> list[float]:
        """For each class, how many of its samples were recognised; 0 where there were none."""
        assert self.confusion is not None
        return [_share(row[index], sum(row)) for index, row in enumerate(self.confusion)]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


class Meter:
    """Collects one rank's part of an epoch or evaluation."""

    #: Samples that are kept before they are counted, all at once: of small batches, one by one
    #: would take a good part of a step.
    _MOST_KEPT = 4096

    def __init__(self, names: Sequence[str] = ()) -> None:
        """Besides loss and accuracy, the metrics of these names."""
        self._names = tuple(dict.fromkeys(["accuracy", *(n for n in names if n in _SUMS)]))
        self._loss = 0.0
        self._count = 0
        self._sums = [0.0] * len(self._names)
        self._wants_table = any(name in BY_CLASS for name in names)
        self._table = torch.zeros(0, 0, dtype=torch.int64)
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
                self._count_kept()

    def _count_kept(self) -> None:
        if not self._kept:
            return
        outputs, targets = (torch.cat(column) for column in zip(*self._kept, strict=True))
        for index, name in enumerate(self._names):
            self._sums[index] += float(_SUMS[name](outputs, targets))
        if self._wants_table:
            self._table = _enlarged(self._table, outputs.shape[1])
            classes = len(self._table)
            places = targets * classes + outputs.argmax(1)
            counts = torch.bincount(places, minlength=classes**2).view(classes, classes)
            self._table += counts.cpu()
        self._kept, self._kept_count = [], 0

    @property
    def mine(self) -> Metrics:
        """This rank's part alone, for a progress display."""
        self._count_kept()
        return self._metrics([self._loss, self._count, *self._sums])

    def total(self, comm: Communicator) -> Metrics:
        """Collective. The whole of all ranks."""
        sums, table = self._collected(comm)
        comm.allreduce(sums)
        if table is None:
            return self._metrics(sums.tolist())
        comm.allreduce(table)
        return self._metrics(sums.tolist(), table.tolist())

    def _collected(self, comm: Communicator) -> tuple[Tensor, Tensor | None]:
        """Collective. This rank's sums, and its table in the size that all ranks have."""
        self._count_kept()
        sums = torch.tensor([self._loss, self._count, *self._sums], dtype=torch.float64)
        if not self._wants_table:
            return sums, None
        classes = torch.tensor([len(self._table)])
        comm.allreduce(classes, "maximum")  # a rank without samples has seen no outputs
        return sums, _enlarged(self._table, int(classes)).clone()

    def state(self, comm: Communicator) -> State:
        """Collective. What was collected so far, as this rank's share in the sum of all."""
        sums, table = self._collected(comm)
        tensors: dict[str, Part] = {"metrics/sums": Share(sums, "sum")}
        if table is not None:
            tensors["metrics/confusion"] = Share(table, "sum")
        return State(tensors, {"metrics": list(self._names)})

    def load(self, state: State, *, first: bool) -> None:
        """Go on from there: the first rank with what all had collected, the others with nothing."""
        if state.values.get("metrics") != list(self._names) or not first:
            return
        self._loss, count, *self._sums = state.tensor("metrics/sums").tolist()
        self._count = int(count)
        if "metrics/confusion" in state.tensors:
            self._table = state.tensor("metrics/confusion").clone()

    def _metrics(self, sums: list[float], confusion: list[list[int]] | None = None) -> Metrics:
        loss, count, *others = sums
        means = {
            name: value / max(count, 1) for name, value in zip(self._names, others, strict=True)
        }
        accuracy = means.pop("accuracy")
        return Metrics(loss / max(count, 1), accuracy, int(count), means, confusion)


def _enlarged(table: Tensor, classes: int) -> Tensor:
    """A square table of so many classes, at least, with these counts in its corner."""
    missing = max(classes - len(table), 0)
    return F.pad(table, (0, missing, 0, missing))


#: With more classes than these, a column for each would not fit a screen.
_MOST_COLUMNS = 12


def confusion_table(metrics: Metrics, classes: Sequence[str]) -> TextTable:
    """A row for each class, with its precision and recall; the metrics must have a confusion.

    With few classes, every row has a column for each class that was the answer.
    """
    counts = metrics.confusion
    assert counts is not None, "measured without the metric `confusion`"
    # Samples may be of fewer classes than the model has outputs, and then these have no name.
    names = [*classes, *(str(number) for number in range(len(classes), len(counts)))]
    shares = [
        (f"{precision:.1%}", f"{recall:.1%}")
        for precision, recall in zip(metrics.precision(), metrics.recall(), strict=True)
    ]
    few = len(counts) <= _MOST_COLUMNS
    columns = tuple(names) if few else ("samples", "right", "most often taken for")
    rows = [
        (names[index], *(map(str, row) if few else _summary(row, index, names)), *shares[index])
        for index, row in enumerate(counts)
    ]
    return TextTable("Confusion", ("class", *columns, "precision", "recall"), tuple(rows))


def _summary(row: Sequence[int], own: int, names: Sequence[str]) -> tuple[str, str, str]:
    others = [0 if index == own else count for index, count in enumerate(row)]
    worst = max(range(len(others)), key=others.__getitem__)
    taken_for = f"{names[worst]} ({others[worst]:,})" if others[worst] else ""
    return f"{sum(row):,}", f"{row[own]:,}", taken_for
