"""Columns of a table as columns of samples, in the smallest type that holds them exactly."""

from collections.abc import Sequence

import torch
from torch import Tensor

from phalanx.data.tables.form import InputColumn, TableForm
from phalanx.data.tables.known_cells import places, wrong_numbers
from phalanx.data.tables.missing import gaps
from phalanx.data.tables.table import Column, Table
from phalanx.data.targets.tasks import CLASSIFICATION
from phalanx.errors import DataError

_SMALLER = (torch.uint8, torch.float32)


def encode_rows(table: Table, form: TableForm) -> Tensor:
    """The rows of a table, whose cells are checked, as the inputs of the training were.

    A column of categories becomes a column for each of them, in their order, of which one is 1, or
    none where the training had no such value. One of numbers is followed by one that is 1 where
    they were missing, if that was so in the training.
    """
    columns = zip(form.input_columns(table), form.inputs, strict=True)
    return torch.cat([part for column, known in columns for part in _encoded(column, known)], dim=1)


def encode_targets(table: Table, form: TableForm) -> Tensor:
    """The targets of a table's rows: numbers of classes [n], or values or labels [n, k]."""
    if form.task == CLASSIFICATION:
        return torch.tensor(form.targets(table))
    return torch.tensor(form.target_rows(table), dtype=torch.float64)


def encode_cells(table: Table, column: Column) -> Tensor:
    """The numbers of a column, [rows, 1]; a DataError with the first cell that is none."""
    for _, cause in wrong_numbers(table, column):
        raise DataError(cause)
    return encode_numbers(column.numbers or ())


def encode_numbers(numbers: Sequence[float]) -> Tensor:
    """Numbers as they are, [rows, 1]."""
    exact = torch.tensor(numbers, dtype=torch.float64)[:, None]
    for dtype in _SMALLER:
        smaller = exact.to(dtype)
        if torch.equal(smaller.to(torch.float64), exact):
            return smaller
    return exact


def encode_categories(chosen: Sequence[int], *, count: int) -> Tensor:
    """For each row a 1 in the column of the category that it has, [rows, count]."""
    places = torch.tensor(chosen)[:, None]
    columns = torch.zeros(len(chosen), count, dtype=torch.uint8)
    return columns.scatter_(1, places.clamp_min(0), (places >= 0).to(torch.uint8))


def _encoded(column: Column, known: InputColumn) -> list[Tensor]:
    whole = known.filled(column)
    if known.categories is not None:
        return [
            encode_categories(places(whole.values, known.categories), count=len(known.categories))
        ]
    numbers = encode_numbers(whole.numbers or ())
    if not known.marks_missing:
        return [numbers]
    marks = torch.zeros_like(numbers, dtype=torch.uint8)
    marks[gaps(column)] = 1
    return [numbers, marks]
