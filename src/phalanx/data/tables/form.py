"""What the columns of a training's table are, so that other tables are read as it was.

Columns are found by name, in any order; others may be there or not, and hold anything or nothing.
Where the training's table had no header, they are found by their place. Without torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.data.tables.cells import is_missing
from phalanx.data.tables.known_cells import (
    UNKNOWN,
    class_places,
    listed,
    places,
    wrong_numbers,
    wrong_words,
)
from phalanx.data.tables.missing import filled
from phalanx.data.tables.table import Column, Table, read_table
from phalanx.data.tables.target_columns import label_rows, wrong_targets
from phalanx.data.targets.tasks import CLASSIFICATION
from phalanx.errors import DataError


@dataclass(frozen=True)
class InputColumn:
    """A column to learn from: of numbers, unless it has categories, which are in their order.

    Missing values are replaced by `fill`, if there is one. Whether a number was missing may be an
    input of its own, which `marks_missing`.
    """

    name: str
    place: int
    categories: tuple[str, ...] | None = None
    fill: str | None = None
    marks_missing: bool = False

    def filled(self, column: Column) -> Column:
        """A column of another table with what stands in for its missing values."""
        return filled(column, self.fill, numbers=self.categories is None)

    def wrong(self, table: Table, column: Column) -> Iterator[tuple[int, str]]:
        """The rows of another table whose cells, filled in already, a model cannot read."""
        if self.categories is None:
            return wrong_numbers(table, column)
        return iter(()) if self.fill is not None else wrong_words(table, column)


@dataclass(frozen=True)
class TableForm:
    """The inputs of a table with so many columns, and the one with the classes.

    For another task than classification there may be other targets. Labels may all be in one
    column, with a `separator` between them.
    """

    inputs: tuple[InputColumn, ...]
    target: InputColumn
    width: int
    has_header: bool
    task: str = CLASSIFICATION
    other_targets: tuple[InputColumn, ...] = ()
    separator: str | None = None

    @property
    def all_targets(self) -> tuple[InputColumn, ...]:
        return (self.target, *self.other_targets)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, the labels, or what the values are called."""
        if self.target.categories is not None:
            return self.target.categories
        return tuple(column.name for column in self.all_targets)

    def read(self, path: Path, *, encoding: str | None = None, skip_bad: bool = False) -> Table:
        """A table that is to be of this form, whose cells are still to be checked."""
        header = True if self.has_header else self._header_shows()
        return read_table(path, header=header, encoding=encoding, skip_bad=skip_bad)

    def checked(self, table: Table, *, classes: bool, skip_bad: bool = False) -> Table:
        """A table of this form, with `classes` or not, that a model can read.

        A DataError for the first row that it cannot, or all such rows left out.
        """
        wrong: dict[int, str] = {}
        for column, known in zip(self.input_columns(table), self.inputs, strict=True):
            wrong |= dict(known.wrong(table, known.filled(column)))
        if classes:
            wrong |= self._wrong_targets(table)
        if wrong and not skip_bad:
            raise DataError(wrong[min(wrong)])
        table = table.without(dict(sorted(wrong.items())))
        if classes:
            _ = self.targets(table) if self.task == CLASSIFICATION else self.target_rows(table)
        return table

    def _wrong_targets(self, table: Table) -> dict[int, str]:
        if self.task == CLASSIFICATION:
            return dict(wrong_words(table, self.target_column(table)))
        wrong: dict[int, str] = {}
        for column in self.target_columns(table):
            wrong |= dict(wrong_targets(table, column, task=self.task, separator=self.separator))
        return wrong

    def notes(self, table: Table) -> Iterator[str]:
        """What a user should know about other values than the training's rows have."""
        for column, known in zip(self.input_columns(table), self.inputs, strict=True):
            if known.categories is None:
                continue
            values = known.filled(column).values
            found = places(values, known.categories)
            new = [one for one, place in zip(values, found, strict=True) if place == UNKNOWN]
            if new:
                names = [one or "(missing)" for one in dict.fromkeys(new)]
                rows = "1 row" if len(new) == 1 else f"{len(new):,} rows"
                yield (
                    f"{table.path}: column '{column.name}': {rows} of {len(values):,} with values "
                    f"that the training's rows do not have, taken as none of theirs: "
                    f"{listed(names)}"
                )

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
        return self.target_columns(table)[0]

    def target_columns(self, table: Table) -> list[Column]:
        """The columns of another table that have the classes, the labels or the values."""
        kind = "classes" if self.task == CLASSIFICATION else "targets"
        if self.has_header:
            there = [column.name for column in table.columns]
            for one in self.all_targets:
                if one.name not in there:
                    raise DataError(
                        f"{table.path}: lacks column '{one.name}', which has the {kind}: add it. "
                        "`predict --input` does without; `train` does with one file as --data-dir, "
                        "and --test-split"
                    )
            return _by_name(table, self.all_targets)
        if len(table.columns) != self.width:
            raise DataError(
                f"{table.path}: has {len(table.columns)} columns; the training's table, which has "
                f"no header, had {self.width}, of which the one with the {kind} is needed, too"
            )
        return [table.columns[one.place] for one in self.all_targets]

    def has_targets(self, table: Table) -> bool:
        """Whether another table has all of these columns."""
        if not self.has_header:
            return len(table.columns) == self.width
        return {one.name for one in self.all_targets} <= {one.name for one in table.columns}

    def targets(self, table: Table) -> list[int]:
        """The class of each row of another table, as the training counted them."""
        return class_places(table, self.target_column(table), known=self.classes)

    def target_rows(self, table: Table) -> list[list[float]]:
        """The values of each row of another table, or 1 and 0 for its labels."""
        columns = self.target_columns(table)
        if self.separator is not None:
            known, separator = self.classes, self.separator
            return label_rows(table, columns[0], known=known, separator=separator)
        numbers = [column.numbers or [] for column in columns]
        return [list(row) for row in zip(*numbers, strict=True)]

    def labels(self, table: Table) -> list[str] | None:
        """The classes that rows of another table are said to have, if it says so.

        A class that the training did not have is as it is written, one that is missing is empty.
        """
        if self.task != CLASSIFICATION or not self.has_targets(table):
            return None
        values = self.target_column(table).values
        found = places(values, self.classes, as_numbers=True)
        written = ["" if is_missing(value) else value for value in values]
        return [
            written[row] if place == UNKNOWN else self.classes[place]
            for row, place in enumerate(found)
        ]

    def for_json(self) -> dict[str, Any]:
        """The form for a file, with which `form_from` makes it again."""
        first, *others = ({"name": one.name, "place": one.place} for one in self.all_targets)
        return {
            "has_header": self.has_header,
            "width": self.width,
            "columns": [_for_json(column) for column in self.inputs],
            "target": first,
            "task": self.task,
            **({"other_targets": others} if others else {}),
            **({} if self.separator is None else {"separator": self.separator}),
        }

    def _header_shows(self) -> bool | None:
        """What is known of a new table's header where the training's table had none.

        Above numbers one shows by itself; words alone are rows, as they were in the training.
        """
        return None if any(column.categories is None for column in self.inputs) else False


def form_from(values: Mapping[str, Any], *, classes: Sequence[str]) -> TableForm:
    """The form that `for_json` gave, and the classes, which are kept elsewhere."""
    task, separator = values.get("task", CLASSIFICATION), values.get("separator")
    named = task == CLASSIFICATION or separator is not None
    first, *others = (
        InputColumn(one["name"], one["place"], tuple(classes) if named else None)
        for one in (values["target"], *values.get("other_targets", ()))
    )
    inputs = tuple(
        InputColumn(
            one["name"],
            one["place"],
            tuple(one["categories"]) if one["kind"] == "categories" else None,
            one.get("fill"),
            one.get("marks_missing", False),
        )
        for one in values["columns"]
    )
    return TableForm(
        inputs,
        first,
        values["width"],
        values["has_header"],
        task,
        tuple(others),
        separator,
    )


def _for_json(column: InputColumn) -> dict[str, Any]:
    values: dict[str, Any] = {"name": column.name, "place": column.place, "kind": "numbers"}
    if column.categories is not None:
        values |= {"kind": "categories", "categories": list(column.categories)}
    if column.fill is not None:
        values["fill"] = column.fill
    if column.marks_missing:
        values["marks_missing"] = True
    return values


def _by_name(table: Table, wanted: Sequence[InputColumn]) -> list[Column]:
    found = {column.name: column for column in table.columns}
    missing = [column.name for column in wanted if column.name not in found]
    if missing:
        raise DataError(f"{table.path}: lacks columns of the training's table: {listed(missing)}")
    return [found[column.name] for column in wanted]
