"""What the target columns of a table are to learn: classes, numbers, or labels. Without torch."""

from collections.abc import Iterator, Sequence

from phalanx.data.tables.cells import is_missing, parse_number
from phalanx.data.tables.known_cells import UNKNOWN, listed, missing, places, wrong_numbers
from phalanx.data.tables.table import Column, Table
from phalanx.data.targets.tasks import (
    CLASSIFICATION,
    MULTI_LABEL,
    REGRESSION,
    task_of_numbers,
    unsure,
)
from phalanx.errors import DataError
from phalanx.wording import shortened

#: What stands between the labels of a cell. That commas do is not sure: they are in names, too.
_SURE_SEPARATORS, _SEPARATORS = ("|", ";"), ("|", ";", ",")


def task_of_columns(table: Table, columns: Sequence[Column]) -> str:
    """The task that columns of targets show; a DataError if it might be another."""
    where = f"{table.path}: column '{shortened(columns[0].name)}'"
    if len(columns) > 1:
        return _task_of_several(table, columns)
    known = _known(columns[0])
    numbers = _numbers(known)
    if numbers is None:
        return CLASSIFICATION if separator_of(columns[0], sure=True) is None else MULTI_LABEL
    values, fractions = len(set(numbers)), any(number != int(number) for number in numbers)
    task = task_of_numbers(values=values, samples=len(numbers), fractions=fractions)
    if task is None:
        kind = "different numbers" if fractions else "different whole numbers"
        raise DataError(unsure(where, f"holds {values:,} {kind} in {len(numbers):,} rows"))
    return task


def _task_of_several(table: Table, columns: Sequence[Column]) -> str:
    tasks: set[str | None] = set()
    for column in columns:
        numbers = _numbers(_known(column))
        if numbers is None:
            raise DataError(
                f"{table.path}: column '{shortened(column.name)}' holds words, and several target "
                "columns need numbers, or 0 and 1 for labels: --target names others"
            )
        fractions = any(number != int(number) for number in numbers)
        if set(numbers) <= {0, 1}:
            tasks.add(MULTI_LABEL)
        else:
            values = len(set(numbers))
            tasks.add(task_of_numbers(values=values, samples=len(numbers), fractions=fractions))
    if len(tasks) == 1 and (task := tasks.pop()) in (REGRESSION, MULTI_LABEL):
        return task
    names = ", ".join(f"'{shortened(column.name)}'" for column in columns)
    seen = "hold whole numbers, or few different ones"
    raise DataError(unsure(f"{table.path}: columns {names}", seen, tasks=(REGRESSION,)))


def separator_of(column: Column, *, sure: bool = False) -> str | None:
    """What stands between the labels of a column's cells, if anything does.

    It is `sure` that these are labels where they are fewer than the cells that combine them.
    """
    cells = set(_known(column))
    for separator in _SURE_SEPARATORS if sure else _SEPARATORS:
        if any(separator in cell for cell in cells):
            labels = {label for cell in cells for label in parted(cell, separator)}
            if not sure or len(labels) < len(cells):
                return separator
    return None


def parted(cell: str, separator: str) -> list[str]:
    """The labels of a cell."""
    labels = (label.strip() for label in cell.split(separator))
    return [label for label in labels if label]


def labels_of(column: Column, separator: str) -> tuple[str, ...]:
    """All labels of a column, in the order of their names."""
    return tuple(sorted({label for cell in column.values for label in parted(cell, separator)}))


def wrong_targets(
    table: Table, column: Column, *, task: str, separator: str | None
) -> Iterator[tuple[int, str]]:
    """The rows whose cell cannot be a target of this task, with the cause."""
    if separator is not None:  # an empty cell is a sample without labels
        for row, value in enumerate(column.values):
            if value and is_missing(value):
                yield row, missing(table, column, row)
        return
    yield from wrong_numbers(table, column)
    if task != MULTI_LABEL:
        return
    for row, value in enumerate(column.values):
        number = parse_number(value)
        if number is not None and number not in (0, 1):
            yield row, _no_label(table, column, row)


def _no_label(table: Table, column: Column, row: int) -> str:
    return (
        f"{table.where(column, row)}: '{shortened(column.values[row])}' is neither 0 nor 1, as "
        "labels in columns of their own are: correct the cell, or name other columns by --target"
    )


def label_rows(
    table: Table, column: Column, *, known: Sequence[str], separator: str
) -> list[list[float]]:
    """For each row and each known label 1 or 0; a DataError for a label that is not known."""
    rows = []
    for row, cell in enumerate(column.values):
        found = places(parted(cell, separator), known)
        if UNKNOWN in found:
            stranger = parted(cell, separator)[found.index(UNKNOWN)]
            raise DataError(
                f"{table.where(column, row)}: '{shortened(stranger)}' is no label of the "
                f"training's rows; those have {listed(known)}"
            )
        rows.append([float(place in found) for place in range(len(known))])
    return rows


def _known(column: Column) -> list[str]:
    return [value for value in column.values if not is_missing(value, beside_numbers=True)]


def _numbers(values: Sequence[str]) -> list[float] | None:
    """The numbers that these are, if all of them are, and there are some."""
    numbers = [parse_number(value) for value in values]
    known = [number for number in numbers if number is not None]
    return known if known and len(known) == len(numbers) else None
