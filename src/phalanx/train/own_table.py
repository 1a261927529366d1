"""A table with new rows, encoded as the table of a training was: the same columns, the same codes.

Columns are found by name, in any order; others, the class among them, may be there or not. Where
the training's table had no header, they are found by their place.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from phalanx.data.csv_columns import assign, find, numbered
from phalanx.data.folder import dataset_folder
from phalanx.data.table import Column, Table, parse_number, read_table
from phalanx.errors import DataError
from phalanx.train.settings import Settings


def encode_like_training(path: Path, settings: Settings) -> Tensor:
    """The rows of a table as the model of a csv run takes them."""
    trained_on = read_table(
        find(dataset_folder("csv", settings.data_dir, wanted="the table of the training"))
    )
    inputs = assign(trained_on, target=settings.target, drop=settings.drop).inputs
    table = read_table(path)
    nameless = _is_nameless(trained_on)
    columns = _by_place(table, inputs, trained_on) if nameless else _by_name(table, inputs)
    encoded = [
        _encoded(column, like=known, path=path)
        for column, known in zip(columns, inputs, strict=True)
    ]
    return torch.cat(encoded, dim=1)


def plain_numbers(path: Path) -> Tensor:
    """The rows of a table of numbers alone, as they are."""
    table = read_table(path)
    return torch.cat([_numbers(column, path=path) for column in table.columns], dim=1)


def _is_nameless(table: Table) -> bool:
    return all(column.name == f"column {index}" for index, column in enumerate(table.columns))


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


def _encoded(column: Column, *, like: Column, path: Path) -> Tensor:
    if like.numbers is not None:
        return _numbers(column, path=path)
    known, _ = numbered(like)
    place = {value: number for number, value in enumerate(known)}
    for row, value in enumerate(column.values, start=1):
        if value not in place:
            raise DataError(
                f"{_where(path, column, row)}: '{value}' is no value that the model was trained "
                f"with; those are {', '.join(known[:5])}{', …' if len(known) > 5 else ''}"
            )
    chosen = torch.tensor([place[value] for value in column.values])
    return F.one_hot(chosen, len(known)).to(torch.float64)


def _numbers(column: Column, *, path: Path) -> Tensor:
    if column.numbers is None:
        for row, value in enumerate(column.values, start=1):
            if parse_number(value) is None:
                raise DataError(f"{_where(path, column, row)}: '{value}' is not a number")
    return torch.tensor(column.numbers, dtype=torch.float64)[:, None]


def _where(path: Path, column: Column, row: int) -> str:
    return f"{path}: row {row}, column '{column.name}'"
