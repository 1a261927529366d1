"""Metrics by class, by label and by target, as tables for a person."""

from collections.abc import Sequence

from phalanx.data.targets.tasks import CLASSIFICATION, MULTI_LABEL, REGRESSION
from phalanx.strategies.base import TextTable
from phalanx.train.metrics import Metrics

_KINDS = {CLASSIFICATION: "class", REGRESSION: "target", MULTI_LABEL: "label"}
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


def result_tables(metrics: Metrics, names: Sequence[str], *, task: str | None) -> list[TextTable]:
    """What of an evaluation does not fit a line: the confusion, and the values of each output."""
    tables = [confusion_table(metrics, names)] if metrics.confusion else []
    if metrics.by_output:
        kind = _KINDS.get(task or CLASSIFICATION, "class")
        columns = tuple(metrics.by_output)
        rows = zip(names, *metrics.by_output.values(), strict=True)
        cells = tuple((name, *(f"{value:.6g}" for value in values)) for name, *values in rows)
        tables.append(TextTable(f"By {kind}", (kind, *columns), cells))
    return tables
