"""Which columns of a table are inputs, and which is the class. Without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.data.cells import parse_number
from phalanx.data.check_cells import check_cells
from phalanx.data.class_count import MOST_VALUES, check_class_count
from phalanx.data.folder import only_file
from phalanx.data.table import Column, Table, read_table
from phalanx.errors import DataError

_SUFFIXES = tuple(f".{kind}{packed}" for kind in ("csv", "tsv", "data") for packed in ("", ".gz"))
_MOST_CATEGORIES = 1000
#: Larger tables are read by the ranks alone, rather than once more before they start.
_CHECKED_BYTES = 16 << 20


@dataclass(frozen=True)
class Roles:
    """The columns to learn from, and the one to learn; `classes` are its values in order."""

    inputs: tuple[Column, ...]
    target: Column
    classes: tuple[str, ...]

    @property
    def targets(self) -> list[int]:
        """The class of each row, counted from 0."""
        return numbered(self.target)[1]


def find(path: Path) -> Path:
    """The one table at a path."""
    return only_file("csv", path, suffixes=_SUFFIXES)


def check(path: Path, options: Mapping[str, Any]) -> None:
    """Raise for whatever is wrong with a table, unless it is a very large one."""
    file = find(path)
    if file.stat().st_size <= _CHECKED_BYTES:
        assign(read_table(file), target=options.get("target"), drop=options.get("drop"))


def assign(table: Table, *, target: str | None, drop: str | None) -> Roles:
    """Give each column its role; `drop` names those that have none, separated by commas.

    Columns that have a role are checked; what is in the others does not matter.
    """
    chosen = table.index(target or "-1", option="--target")
    left_out = {chosen}
    for name in () if drop is None else drop.split(","):
        left_out.add(table.index(name.strip(), option="--drop"))
    inputs = [column for index, column in enumerate(table.columns) if index not in left_out]
    if not inputs:
        raise DataError(f"{table.path}: no column is left to learn from")
    for column in inputs:
        check_cells(table, column, fix=f"leave out the row, or --drop '{column.name}'")
        _check_categories(table.path, column)
    classes = table.columns[chosen]
    check_cells(table, classes, fix="or leave out the row")
    return Roles(tuple(inputs), classes, _classes(table, classes))


def numbered(column: Column) -> tuple[tuple[str, ...], list[int]]:
    """The different values of a column in order, and for each row which of them it has.

    Numbers are in the order of their size, and 1 and 1.0 are the same.
    """
    keys: list[Any] = list(column.values if column.numbers is None else column.numbers)
    written = dict(zip(reversed(keys), reversed(column.values), strict=True))  # the first wins
    place = {key: number for number, key in enumerate(sorted(written))}
    return tuple(written[key] for key in place), [place[key] for key in keys]


def _classes(table: Table, column: Column) -> tuple[str, ...]:
    where = f"{table.path}: column '{column.name}'"
    fraction = next((n for n in column.numbers or () if n != int(n)), None)
    if fraction is not None:
        raise DataError(
            f"{where} holds numbers such as {fraction}, not classes: regression is not supported; "
            "--target names another column"
        )
    classes, _ = numbered(column)
    if len(classes) < 2:
        raise DataError(f"{where} has one value alone, {classes[0]}: there is nothing to learn")
    check_class_count(
        len(classes),
        MOST_VALUES,
        where=where,
        seen=f"{len(classes):,} values",
        fix="--target names another column",
    )
    return classes


def _check_categories(path: Path, column: Column) -> None:
    count = 0 if column.numbers is not None else len(set(column.values))
    if count > _MOST_CATEGORIES:
        word = next(value for value in column.values if parse_number(value) is None)
        raise DataError(
            f"{path}: column '{column.name}' has {count:,} values such as '{word}', too many to be "
            f"categories: --drop '{column.name}'"
        )
