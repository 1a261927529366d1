"""Which columns of a table are inputs, and which is the class. Without torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phalanx.data.tables.cells import parse_number
from phalanx.data.tables.check_cells import check_cells
from phalanx.data.tables.class_count import MOST_VALUES, check_class_count
from phalanx.data.tables.files import find
from phalanx.data.tables.form import InputColumn, TableForm
from phalanx.data.tables.table import Column, Table, read_table
from phalanx.errors import DataError, UsageError

_MOST_CATEGORIES = 1000
#: Larger tables are read by the ranks alone, rather than once more before they start.
_CHECKED_BYTES = 16 << 20


def check(path: Path, options: Mapping[str, Any], *, form: TableForm | None = None) -> None:
    """Raise for whatever is wrong with the tables, unless they are very large.

    Those that are to be of a form that is known need not be fit to learn from.
    """
    tables = find(path, split_is_given="test_split" in options)
    if tables.test is not None and "test_split" in options:
        raise UsageError(
            f"{path} has test rows of its own, in {tables.test.name}: leave out --test-split, or "
            f"give one file with --data-dir {tables.train}"
        )
    if form is not None:
        _check_form(tables.test or tables.train, form)
    elif tables.train.stat().st_size <= _CHECKED_BYTES:
        table = read_table(tables.train)
        form = assign(table, target=options.get("target"), drop=options.get("drop"))
        if tables.test is not None:
            _check_form(tables.test, form)


def _check_form(path: Path, form: TableForm) -> None:
    if path.stat().st_size <= _CHECKED_BYTES:
        form.check(form.read(path))


def assign(table: Table, *, target: str | None, drop: str | None) -> TableForm:
    """Give each column its role; `drop` names those that have none, separated by commas.

    Columns that have a role are checked; what is in the others does not matter.
    """
    chosen = table.index(target or "-1", option="--target")
    left_out = {chosen}
    for name in () if drop is None else drop.split(","):
        left_out.add(table.index(name.strip(), option="--drop"))
    inputs = {index: one for index, one in enumerate(table.columns) if index not in left_out}
    if not inputs:
        raise DataError(f"{table.path}: no column is left to learn from")
    for column in inputs.values():
        check_cells(table, column, fix=f"leave out the row, or --drop '{column.name}'")
        _check_categories(table.path, column)
    classes = table.columns[chosen]
    check_cells(table, classes, fix="or leave out the row")
    return TableForm(
        tuple(_input_column(column, place) for place, column in inputs.items()),
        InputColumn(classes.name, chosen, _classes(table, classes)),
        width=len(table.columns),
        has_header=any(one.name != f"column {index}" for index, one in enumerate(table.columns)),
    )


def _input_column(column: Column, place: int) -> InputColumn:
    categories = None if column.numbers is not None else _different(column)
    return InputColumn(column.name, place, categories)


def _different(column: Column) -> tuple[str, ...]:
    """The different values of a column in order.

    Numbers are in the order of their size, and 1 and 1.0 are the same.
    """
    keys: list[Any] = list(column.values if column.numbers is None else column.numbers)
    written = dict(zip(reversed(keys), reversed(column.values), strict=True))  # the first wins
    return tuple(written[key] for key in sorted(written))


def _classes(table: Table, column: Column) -> tuple[str, ...]:
    where = f"{table.path}: column '{column.name}'"
    fraction = next((n for n in column.numbers or () if n != int(n)), None)
    if fraction is not None:
        raise DataError(
            f"{where} holds numbers such as {fraction}, not classes: regression is not supported; "
            "--target names another column"
        )
    classes = _different(column)
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
