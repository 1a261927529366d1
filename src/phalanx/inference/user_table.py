"""A table with new rows, encoded as the table of a training was: the same columns, the same codes.

The class may be there or not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phalanx.data.tables.encode import encode_cells, encode_rows
from phalanx.data.tables.form import TableForm
from phalanx.data.tables.known_cells import wrong_numbers
from phalanx.data.tables.table import Table, read_table
from phalanx.errors import DataError
from phalanx.inference.targets.said import Said, nothing_said, said_in


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a table of a user's own is read."""

    encoding: str | None = None
    #: Leave out rows that a model cannot read.
    skip_bad: bool = False
    #: The column whose values are to stand beside the answers.
    id_column: str | None = None


@dataclass(frozen=True, kw_only=True)
class UserTable:
    """Rows for a model, and the places that they have among all rows of the file.

    Whatever else is known is about all rows of the file: targets as they are given, and what the
    column beside the answers holds.
    """

    inputs: Tensor
    places: Sequence[int]
    count: int
    labels: Said | None = None
    beside: tuple[str, Sequence[str]] | None = None
    notes: tuple[str, ...] = ()


def read_like_training(path: Path, form: TableForm | None, reading: Reading) -> UserTable:
    """The rows of a file as the model of a csv run of this form, or of another run, takes them."""
    read = read_table if form is None else form.read
    table = read(path, encoding=reading.encoding, skip_bad=reading.skip_bad)
    return encode(table, form, reading)


def encode(table: Table, form: TableForm | None, reading: Reading) -> UserTable:
    """The same of a table that is read already."""
    if form is None:
        return _plain_numbers(table, reading)
    return _encode_like_training(table, form, reading)


def _encode_like_training(table: Table, form: TableForm, reading: Reading) -> UserTable:
    """The rows of a table as the model of a csv run takes them."""
    usable = form.checked(table, classes=False, skip_bad=reading.skip_bad)
    labels = said_in(table, form)
    return UserTable(
        inputs=encode_rows(usable, form),
        places=usable.places,
        count=usable.count,
        labels=None if labels is None else _of_all(table, labels, nothing_said(form)),
        beside=_beside(table, reading),
        notes=(*usable.notes, *form.notes(usable)),
    )


def _plain_numbers(table: Table, reading: Reading) -> UserTable:
    """The rows of a table of numbers alone, as they are, but for the column beside the answers."""
    beside = _beside(table, reading)
    places = [
        place
        for place, column in enumerate(table.columns)
        if beside is None or column.name != beside[0]
    ]
    wrong = {
        row: cause for place in places for row, cause in wrong_numbers(table, table.columns[place])
    }
    if wrong and not reading.skip_bad:
        raise DataError(wrong[min(wrong)])
    usable = table.without(dict(sorted(wrong.items())))
    columns = [encode_cells(usable, usable.columns[place]) for place in places]
    return UserTable(
        inputs=torch.cat(columns, dim=1),
        places=usable.places,
        count=usable.count,
        beside=beside,
        notes=usable.notes,
    )


def _beside(table: Table, reading: Reading) -> tuple[str, Sequence[str]] | None:
    if reading.id_column is None:
        return None
    column = table.columns[table.index(reading.id_column, option="--id")]
    return column.name, _of_all(table, column.values)


def _of_all(table: Table, values: Sequence[Any], nothing: Any = "") -> list[Any]:
    """A value for every row of the file, `nothing` for those that were not read."""
    whole = [nothing] * table.count
    for place, value in zip(table.places, values, strict=True):
        whole[place] = value
    return whole
