"""Sums over samples that add up exactly over batches and ranks: never an average of averages."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.settings.metrics import BY_CLASS
from phalanx.state import Share, State
from phalanx.state.parts import Part
from phalanx.strategies.base import Outcome, number
from phalanx.train.losses import one_hot, widened
from phalanx.train.measures import errors, labels
from phalanx.train.measures.rows import are_numbers, by_answer, is_class

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
#: What a mean loss is in other words.
_OF_LOSS: dict[str, Callable[[float], float]] = {
    "perplexity": lambda loss: math.exp(loss) if loss < _LARGEST_EXPONENT else math.inf,
    "bits": lambda loss: loss / math.log(2),
}
_LARGEST_EXPONENT = 700


#: Metrics from sums for every label or target.
_MEASURES = {"errors": errors, "labels": labels}
_NOTHING = torch.zeros(0)


@dataclass(frozen=True)
class Metrics:
    """The mean loss and the share of right answers over `count` samples, and what else was asked.

    Answers that are no classes, as in a regression, are neither right nor wrong, and have no
    accuracy. `confusion` has a row for each class that is right, a column for each that was the
    answer. Of several labels or targets, `by_output` has the values of each.
    """

    loss: float
    accuracy: float | None
    count: int
    more: dict[str, float] = field(default_factory=dict)
    confusion: list[list[int]] | None = None
    by_output: dict[str, list[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        """As a line of progress has it."""
        return f"loss {self.loss:.4f}{self.accuracy_text}"

    @property
    def accuracy_text(self) -> str:
        """What stands behind a loss, if answers are right or wrong at all."""
        return "" if self.accuracy is None else f"  accuracy {self.accuracy:.2%}"

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
    #: would take a good part of a step; and bytes of their outputs.
    _MOST_KEPT = 4096
    _MOST_BYTES = 1 << 24

    def __init__(self, names: Sequence[str] = (), unit: Tensor | None = None) -> None:
        """Besides loss and accuracy, the metrics of these names; errors are in the `unit` that 1
        stands for in each target."""
        self._asked, self._unit = tuple(names), unit
        self._names = tuple(dict.fromkeys(["accuracy", *(n for n in names if n in _SUMS)]))
        self._of_loss = tuple(dict.fromkeys(n for n in names if n in _OF_LOSS))
        self._loss: float | Tensor = 0.0
        self._weight: float | Tensor = 0.0
        self._count = 0
        self._classified = 0  # samples whose answers are classes, and so right or wrong
        self._sums: list[float | Tensor] = [0.0] * len(self._names)
        self._wants_table = any(name in BY_CLASS for name in names)
        self._table = torch.zeros(0, 0, dtype=torch.int64)
        self._by_output = {
            kind: torch.zeros(0, measure.WIDTH, dtype=torch.float64)
            for kind, measure in _MEASURES.items()
            if any(name in measure.NAMES for name in names)
        }
        self._kept: list[tuple[Tensor, Tensor]] = []
        self._kept_count = self._kept_bytes = 0

    def add_outcome(self, outcome: Outcome) -> None:
        """Count in a step."""
        if not outcome.pieces:
            self.add(outcome.loss, outcome.outputs, outcome.targets, weight=outcome.weight)
            return
        self._loss += outcome.loss
        self._weight += outcome.samples if outcome.weight is None else outcome.weight
        self._count += outcome.samples
        if outcome.outputs is not None and outcome.targets is not None:
            self._add_answers(outcome.outputs, outcome.targets)

    def add(
        self,
        loss_sum: float | Tensor,
        outputs: Tensor | None,
        targets: Tensor | None,
        *,
        weight: float | Tensor | None = None,
    ) -> None:
        """Count in a batch: its loss summed over samples; None stands for no sample.

        The loss is a mean over samples, or over what they weigh.
        """
        if outputs is None or targets is None:
            return
        count = targets.shape[0]
        self._loss += loss_sum
        self._weight += count if weight is None else weight
        self._count += count
        self._add_answers(outputs, targets)

    def _add_answers(self, outputs: Tensor, targets: Tensor) -> None:
        if is_class(outputs, targets):
            outputs, targets = by_answer(outputs, targets)
            self._classified += len(targets)
            self._keep(outputs, targets)
        elif self._by_output and are_numbers(outputs, targets):
            self._keep(outputs, targets)

    def _keep(self, outputs: Tensor, targets: Tensor) -> None:
        self._kept.append((outputs, targets))
        self._kept_count += len(targets)
        self._kept_bytes += outputs.nbytes
        if self._kept_count >= self._MOST_KEPT or self._kept_bytes >= self._MOST_BYTES:
            self._count_kept()

    def _count_kept(self) -> None:
        if not self._kept:
            return
        outputs, targets = (torch.cat(column) for column in zip(*self._kept, strict=True))
        self._kept, self._kept_count, self._kept_bytes = [], 0, 0
        if "errors" in self._by_output and targets.is_floating_point():
            self._add_rows("errors", errors.error_sums(outputs, targets))
        if "labels" in self._by_output:
            self._add_rows("labels", labels.label_counts(outputs, targets))
        if not targets.is_floating_point():
            self._count_classes(outputs, targets)

    def _add_rows(self, kind: str, rows: Tensor) -> None:
        self._by_output[kind] = _with_rows(self._by_output[kind], len(rows)) + rows

    def _count_classes(self, outputs: Tensor, targets: Tensor) -> None:
        for index, name in enumerate(self._names):
            self._sums[index] += number(_SUMS[name](outputs, targets))
        if self._wants_table:
            self._table = _enlarged(self._table, outputs.shape[1])
            classes = len(self._table)
            places = targets * classes + outputs.argmax(1)
            counts = torch.bincount(places, minlength=classes**2).view(classes, classes)
            self._table += counts.cpu()

    @property
    def mine(self) -> Metrics:
        """This rank's part alone, for a progress display."""
        self._count_kept()
        return self._metrics(self._numbers, self._by_output)

    @property
    def _numbers(self) -> list[float]:
        """What adds up over ranks."""
        sums = [float(one) for one in self._sums]
        return [float(self._loss), float(self._weight), self._count, self._classified, *sums]

    def total(self, comm: Communicator) -> Metrics:
        """Collective. The whole of all ranks."""
        sums, tables = self._collected(comm)
        comm.allreduce(sums)
        for one in tables.values():
            comm.allreduce(one)
        confusion = tables.pop("confusion", None)
        counts = None if confusion is None else confusion.tolist()
        return self._metrics(sums.tolist(), tables, counts)

    def _collected(self, comm: Communicator) -> tuple[Tensor, dict[str, Tensor]]:
        """Collective. This rank's sums, and its tables in the size that all ranks have."""
        self._count_kept()
        sums = torch.tensor(self._numbers, dtype=torch.float64)
        mine = self._by_output | ({"confusion": self._table} if self._wants_table else {})
        if not mine:
            return sums, {}
        sizes = torch.tensor([len(one) for one in mine.values()])
        comm.allreduce(sizes, "maximum")  # a rank without samples has seen no outputs
        return sums, {
            kind: (_enlarged if kind == "confusion" else _with_rows)(one, size).clone()
            for (kind, one), size in zip(mine.items(), sizes.tolist(), strict=True)
            if size
        }

    def state(self, comm: Communicator) -> State:
        """Collective. What was collected so far, as this rank's share in the sum of all."""
        sums, tables = self._collected(comm)
        tensors: dict[str, Part] = {"metrics/sums": Share(sums, "sum")}
        tensors |= {f"metrics/{kind}": Share(one, "sum") for kind, one in tables.items()}
        return State(tensors, {"metrics": self._measured})

    @property
    def _measured(self) -> list[str]:
        known = [name for one in _MEASURES.values() for name in one.NAMES]
        return [*self._names, *(n for n in self._asked if n in known and n not in self._names)]

    def load(self, state: State, *, first: bool) -> None:
        """Go on from there: the first rank with what all had collected, the others with nothing."""
        if state.values.get("metrics") != self._measured or not first:
            return
        numbers = state.tensor("metrics/sums").tolist()
        self._loss, self._weight, count, classified, *self._sums = numbers
        self._count, self._classified = int(count), int(classified)
        if "metrics/confusion" in state.tensors:
            self._table = state.tensor("metrics/confusion").clone()
        for kind in self._by_output:
            if f"metrics/{kind}" in state.tensors:
                self._by_output[kind] = state.tensor(f"metrics/{kind}").clone()

    def _metrics(
        self,
        sums: list[float],
        tables: Mapping[str, Tensor],
        confusion: list[list[int]] | None = None,
    ) -> Metrics:
        loss, weight, count, classified, *others = sums
        nothing = math.nan if count else 0.0  # as torch has it for a mean of nothing
        mean = loss / weight if weight else nothing
        more, by_output = self._of_outputs(tables)
        more |= {name: _OF_LOSS[name](mean) for name in self._of_loss}
        if classified == 0:
            return Metrics(mean, None, int(count), more, confusion, by_output)
        means = {name: one / classified for name, one in zip(self._names, others, strict=True)}
        accuracy = means.pop("accuracy")
        return Metrics(mean, accuracy, int(count), means | more, confusion, by_output)

    def _of_outputs(
        self, tables: Mapping[str, Tensor]
    ) -> tuple[dict[str, float], dict[str, list[float]]]:
        """What was asked for, over all outputs, and of each if there are several."""
        whole: dict[str, float] = {}
        each: dict[str, list[float]] = {}
        if len(sums := tables.get("errors", _NOTHING)):
            values = errors.error_values(sums, self._unit)
            each |= {name: one for name, one in values.items() if name in self._asked}
            whole |= {name: math.fsum(one) / len(one) for name, one in each.items()}
        if len(counts := tables.get("labels", _NOTHING)):
            whole |= labels.f1_of_all(counts)
            each |= labels.label_values(counts)
        several = any(len(one) > 1 for one in each.values())
        return {name: whole[name] for name in self._asked if name in whole}, each if several else {}


def _with_rows(table: Tensor, rows: int) -> Tensor:
    """A table of so many rows, at least, of which those that are missing are 0."""
    return F.pad(table, (0, 0, 0, max(rows - len(table), 0)))


def _enlarged(table: Tensor, classes: int) -> Tensor:
    """A square table of so many classes, at least, with these counts in its corner."""
    missing = max(classes - len(table), 0)
    return F.pad(table, (0, missing, 0, missing))
