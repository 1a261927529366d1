"""A table with new rows, encoded as the table of a training was: the same columns, the same codes.

Columns are found by name, in any order; others, the class among them, may be there or not, and
hold anything or nothing. Where the training's table had no header, they are found by their place.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from phalanx.data.cells import is_missing, parse_number
from phalanx.data.csv_columns import assign, find, numbered
from phalanx.data.encode import encode_categories, encode_numbers
from phalanx.data.folder import dataset_folder
from phalanx.data.table import Column, Table, read_table
from phalanx.errors import DataError
from phalanx.train.settings import Settings


def encode_like_training(path: Path, settings: Settings) -> Tensor:
    """The rows of a table as the model of a csv run takes them."""
    trained_on = read_table(
        find(dataset_folder("csv", settings.data_dir, wanted="the table of the training"))
    )
    inputs = assign(trained_on, target=settings.target, drop=settings.drop).inputs
    nameless = _is_nameless(trained_on)
    table = read_table(path, header=_has_header(inputs) if nameless else True)
    columns = _by_place(table, inputs, trained_on) if nameless else _by_name(table, inputs)
    encoded = [
        _encoded(table, column, like=known) for column, known in zip(columns, inputs, strict=True)
    ]
    return torch.cat(encoded, dim=1)


def plain_numbers(path: Path) -> Tensor:
    """The rows of a table of numbers alone, as they are."""
    table = read_table(path)
    return torch.cat([_numbers(table, column) for column in table.columns], dim=1)


def _is_nameless(table: Table) -> bool:
    return all(column.name == f"column {index}" for index, column in enumerate(table.columns))


def _has_header(inputs: Sequence[Column]) -> bool | None:
    """What is known of a new table's header where the training's table had none.

    Above numbers one shows by itself; words alone are rows, as they were in the training.
    """
    return None if any(column.numbers is not None for column in inputs) else False


def _by_name(table: Table, inputs: Sequence[Column]) -> list[Column]:
    found = {column.name: column for column in table.columns}
    missing = [column.name for column in inputs if column.name not in found]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise DataError(
            f"{table.path}: lacks columns that the model was trained on: "
            f"{', '.join(missing[:5])}{more}"
        )
    return [found[column.name] for column in inputs]


def _by_place(table: Table, inputs: Sequence[Column], trained_on: Table) -> list[Column]:
    """All columns of the training's table are there, or those alone that the model reads."""
    width, all_of_them = len(table.columns), len(trained_on.columns)
    if width == all_of_them:
        place = {column.name: index for index, column in enumerate(trained_on.columns)}
        return [table.columns[place[column.name]] for column in inputs]
    if width == len(inputs):
        return list(table.columns)
    raise DataError(
        f"{table.path}: has {width} columns; the training's table, which has no header, had "
        f"{all_of_them}, of which the model reads {len(inputs)}"
    )


def _encoded(table: Table, column: Column, *, like: Column) -> Tensor:
    if like.numbers is not None:
        return _numbers(table, column)
    known, _ = numbered(like)
    place = {value: number for number, value in enumerate(known)}
    for row, value in enumerate(column.values):
        if value not in place:
            some = f"{', '.join(known[:5])}{', …' if len(known) > 5 else ''}"
            cause = f"is no value that the model was trained with; those are {some}"
            raise _wrong(table, column, row, cause)
    return encode_categories([place[value] for value in column.values], count=len(known))


def _numbers(table: Table, column: Column) -> Tensor:
    if column.numbers is not None:
        return encode_numbers(column.numbers)
    row = next(row for row, value in enumerate(column.values) if parse_number(value) is None)
    raise _wrong(table, column, row, "is not a number: correct the cell, or leave out the row")


def _wrong(table: Table, column: Column, row: int, cause: str) -> DataError:
    """The error for a cell, which has this cause unless the cell holds nothing at all."""
    value = column.values[row]
    where = table.where(column, row)
    if is_missing(value):
        return DataError(
            f"{where}: the value is missing ('{value}'); fill it in, or leave out the row"
        )
    return DataError(f"{where}: '{value}' {cause}")
