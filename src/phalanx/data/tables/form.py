"""What the columns of a training's table are, so that other tables are read as it was.

Columns are found by name, in any order; others may be there or not, and hold anything or nothing.
Where the training's table had no header, they are found by their place. Without torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.data.tables.cells import is_missing, parse_number
from phalanx.data.tables.table import Column, Table, read_table
from phalanx.errors import DataError

#: So many names are listed in a message.
_LISTED = 5


@dataclass(frozen=True)
class InputColumn:
    """A column to learn from: of numbers, unless it has categories, which are in their order."""

    name: str
    place: int
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TableForm:
    """The inputs of a table with so many columns, and the one with the classes."""

    inputs: tuple[InputColumn, ...]
    target: InputColumn
    width: int
    has_header: bool

    @property
    def classes(self) -> tuple[str, ...]:
        return self.target.categories or ()

    def read(self, path: Path) -> Table:
        """A table that is to be of this form."""
        return read_table(path, header=True if self.has_header else self._header_shows())

    def input_columns(self, table: Table) -> list[Column]:
        """The columns of another table that a model reads, in the order that it reads them in."""
        if self.has_header:
            return _by_name(table, self.inputs)
        width = len(table.columns)
        if width == self.width:
            return [table.columns[column.place] for column in self.inputs]
        if width == len(self.inputs):
            return list(table.columns)
        raise DataError(
            f"{table.path}: has {width} columns; the training's table, which has no header, had "
            f"{self.width}, of which the model reads {len(self.inputs)}"
        )

    def target_column(self, table: Table) -> Column:
        """The column of another table that has the classes."""
        if self.has_header:
            if self.target.name not in [column.name for column in table.columns]:
                raise DataError(
                    f"{table.path}: lacks column '{self.target.name}', which has the classes: add "
                    "it. `predict --input` does without; `train` does with one file as --data-dir, "
                    "and --test-split"
                )
            return _by_name(table, [self.target])[0]
        if len(table.columns) != self.width:
            raise DataError(
                f"{table.path}: has {len(table.columns)} columns; the training's table, which has "
                f"no header, had {self.width}, of which the one with the classes is needed, too"
            )
        return table.columns[self.target.place]

    def targets(self, table: Table) -> list[int]:
        """The class of each row of another table, as the training counted them."""
        return places(table, self.target_column(table), known=self.classes, kind="class")

    def check(self, table: Table) -> None:
        """Raise a DataError for another table that cannot be read as one of this form."""
        for column, known in zip(self.input_columns(table), self.inputs, strict=True):
            if known.categories is None:
                check_numbers(table, column)
            else:
                places(table, column, known=known.categories, kind="value")
        self.targets(table)

    def for_json(self) -> dict[str, Any]:
        """The form for a file, with which `form_from` makes it again."""
        return {
            "has_header": self.has_header,
            "width": self.width,
            "columns": [_for_json(column) for column in self.inputs],
            "target": {"name": self.target.name, "place": self.target.place},
        }

    def _header_shows(self) -> bool | None:
        """What is known of a new table's header where the training's table had none.

        Above numbers one shows by itself; words alone are rows, as they were in the training.
        """
        return None if any(column.categories is None for column in self.inputs) else False


def form_from(values: Mapping[str, Any], *, classes: Sequence[str]) -> TableForm:
    """The form that `for_json` gave, and the classes, which are kept elsewhere."""
    target = InputColumn(values["target"]["name"], values["target"]["place"], tuple(classes))
    inputs = tuple(
        InputColumn(
            one["name"],
            one["place"],
            tuple(one["categories"]) if one["kind"] == "categories" else None,
        )
        for one in values["columns"]
    )
    return TableForm(inputs, target, values["width"], values["has_header"])


def places(table: Table, column: Column, *, known: Sequence[str], kind: str) -> list[int]:
    """Which of the known values each row has; classes that are all numbers are compared as such."""
    keys: list[Any] = column.values
    place: dict[Any, int] = {value: number for number, value in enumerate(known)}
    numbers = [parse_number(value) for value in known]
    if kind == "class" and None not in numbers:
        keys = [parse_number(value) for value in column.values]
        place = {value: number for number, value in enumerate(numbers)}
    strangers = {row: column.values[row] for row, key in enumerate(keys) if key not in place}
    if strangers:
        row = next(iter(strangers))
        others = list(dict.fromkeys(strangers.values()))[1:]
        nor = f", nor are {listed(others)}" if others else ""
        cause = f"is no {kind} of the training's rows{nor}; those have {listed(known)}"
        raise _wrong_cell(table, column, row, cause)
    return [place[key] for key in keys]


def check_numbers(table: Table, column: Column) -> None:
    """Raise a DataError with the first cell of a column that is no number."""
    if column.numbers is None:
        row = next(row for row, value in enumerate(column.values) if parse_number(value) is None)
        cause = "is not a number: correct the cell, or leave out the row"
        raise _wrong_cell(table, column, row, cause)


def listed(names: Sequence[str]) -> str:
    """Names for a message, the first of them if there are many."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _wrong_cell(table: Table, column: Column, row: int, cause: str) -> DataError:
    """The error for a cell, which has this cause unless the cell holds nothing at all."""
    value = column.values[row]
    where = table.where(column, row)
    if is_missing(value):
        return DataError(
            f"{where}: the value is missing ('{value}'); fill it in, or leave out the row"
        )
    return DataError(f"{where}: '{value}' {cause}")


def _for_json(column: InputColumn) -> dict[str, Any]:
    values: dict[str, Any] = {"name": column.name, "place": column.place, "kind": "numbers"}
    if column.categories is not None:
        values |= {"kind": "categories", "categories": list(column.categories)}
    return values


def _by_name(table: Table, wanted: Sequence[InputColumn]) -> list[Column]:
    found = {column.name: column for column in table.columns}
    missing = [column.name for column in wanted if column.name not in found]
    if missing:
        raise DataError(f"{table.path}: lacks columns of the training's table: {listed(missing)}")
    return [found[column.name] for column in wanted]
