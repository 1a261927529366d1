"""Columns of a table as columns of samples, in the smallest type that holds them exactly."""

from collections.abc import Sequence

import torch
from torch import Tensor

from phalanx.data.tables.form import InputColumn, check_numbers, places
from phalanx.data.tables.table import Column, Table

_SMALLER = (torch.uint8, torch.float32)


def encode_columns(
    table: Table, columns: Sequence[Column], *, like: Sequence[InputColumn]
) -> Tensor:
    """The columns of a table side by side, each as the one of the training that it stands for.

    A column of categories becomes a column for each of them, in their order, of which one is 1.
    """
    return torch.cat(
        [_encoded(table, column, known) for column, known in zip(columns, like, strict=True)], dim=1
    )


def encode_cells(table: Table, column: Column) -> Tensor:
    """The numbers of a column, [rows, 1]; a DataError with the first cell that is none."""
    check_numbers(table, column)
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
    columns = torch.zeros(len(chosen), count, dtype=torch.uint8)
    return columns.scatter_(1, torch.tensor(chosen)[:, None], 1)


def _encoded(table: Table, column: Column, known: InputColumn) -> Tensor:
    if known.categories is None:
        return encode_cells(table, column)
    chosen = places(table, column, known=known.categories, kind="value")
    return encode_categories(chosen, count=len(known.categories))
