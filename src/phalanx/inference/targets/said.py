"""What samples are said to be, to stand beside answers: their class, values, or labels."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from phalanx.data.arrays import Array
from phalanx.data.formats.labels import read_labels
from phalanx.data.split import Dataset
from phalanx.data.tables.cells import parse_number
from phalanx.data.tables.form import TableForm
from phalanx.data.tables.table import Table
from phalanx.data.tables.target_columns import parted
from phalanx.data.targets.arrays import read_numbers
from phalanx.data.targets.tasks import CLASSIFICATION, MULTI_LABEL, REGRESSION
from phalanx.errors import DataError
from phalanx.inference.targets.answers import SEPARATOR

#: What is said of each sample: a class or labels as text, or a row of numbers.
Said = Sequence[Any]


def said_by(dataset: Dataset) -> Said | None:
    """What a data set says of its test samples, values in their unit; None if nothing."""
    targets = dataset.test.targets
    if dataset.task == REGRESSION:
        values = targets if dataset.scale is None else dataset.scale.restored(targets)
        return values.tolist()
    if dataset.task == MULTI_LABEL:
        return _labels(targets, dataset.classes)
    if targets.is_floating_point():
        return None
    return [dataset.classes[place] for place in targets.tolist()]


def said_in(table: Table, form: TableForm) -> Said | None:
    """What a table says of its rows; None if it has no targets."""
    if form.task == CLASSIFICATION or not form.has_targets(table):
        return form.labels(table)
    found = form.target_columns(table)
    if form.task == MULTI_LABEL and form.separator is not None:
        cells = (parted(cell, form.separator) for cell in found[0].values)
        return [SEPARATOR.join(cell) for cell in cells]
    rows = zip(*(one.values for one in found), strict=True)
    if form.task == REGRESSION:
        return [[_number(cell) for cell in row] for row in rows]
    names = form.classes
    return [
        SEPARATOR.join(name for name, cell in zip(names, row, strict=True) if parse_number(cell))
        for row in rows
    ]


def nothing_said(form: TableForm) -> Any:
    """What stands for a row of which nothing is known."""
    return [math.nan] * len(form.classes) if form.task == REGRESSION else ""


def said_of(array: Array, names: Sequence[str], *, where: str, task: str) -> Said:
    """What an array says of samples."""
    if task == CLASSIFICATION:
        labels = read_labels(array, where=where)
        return [labels.classes[place] for place in labels.targets.tolist()]
    numbers = read_numbers(array, where=where, task=task)
    if numbers.shape[1] != len(names):
        raise DataError(f"{where}: {numbers.shape[1]} a sample, and the model has {len(names)}")
    return numbers.tolist() if task == REGRESSION else _labels(numbers, names)


def _labels(targets: Tensor, names: Sequence[str]) -> list[str]:
    """The labels of samples, from a 1 for each that is there."""
    return [
        SEPARATOR.join(name for name, there in zip(names, row, strict=True) if there)
        for row in targets.tolist()
    ]


def _number(cell: str) -> float:
    value = parse_number(cell)
    return math.nan if value is None else value
