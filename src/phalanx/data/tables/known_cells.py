"""The cells of a table as those of a training's table: numbers, and places among what is known.

Without torch.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from phalanx.data.tables.cells import is_missing, parse_number
from phalanx.data.tables.table import Column, Table
from phalanx.errors import DataError
from phalanx.wording import shortened

#: So many names are listed in a message.
_LISTED = 5
#: The place of a value that is none of those that are known.
UNKNOWN = -1
_FIX = "correct the cell, leave out the row, or --skip-bad for all such rows"


def places(values: Sequence[str], known: Sequence[str], *, as_numbers: bool = False) -> list[int]:
    """Which of the known values each one is; if those are all numbers, they may count as such."""
    keys: Sequence[Any] = values
    place: dict[Any, int] = {value: number for number, value in enumerate(known)}
    numbers = [parse_number(value) for value in known]
    if as_numbers and None not in numbers:
        keys = [parse_number(value) for value in values]
        place = {value: number for number, value in enumerate(numbers)}
    return [place.get(key, UNKNOWN) for key in keys]


def class_places(table: Table, column: Column, *, known: Sequence[str]) -> list[int]:
    """Which of the known classes each row has; a DataError for a row that has another."""
    found = places(column.values, known, as_numbers=True)
    strangers = {row: column.values[row] for row, place in enumerate(found) if place == UNKNOWN}
    for row, value in strangers.items():
        if is_missing(value):
            raise DataError(missing(table, column, row))
        others = list(dict.fromkeys(strangers.values()))[1:]
        nor = f", nor are {listed(others)}" if others else ""
        raise DataError(
            f"{table.where(column, row)}: '{shortened(value)}' is no class of the training's "
            f"rows{nor}; those have {listed(known)}"
        )
    return found


def wrong_numbers(table: Table, column: Column) -> Iterator[tuple[int, str]]:
    """The rows in which a column of numbers has none, with the cause."""
    if column.numbers is not None:
        return
    for row, value in enumerate(column.values):
        if is_missing(value, beside_numbers=True):
            yield row, missing(table, column, row)
        elif parse_number(value) is None:
            yield row, f"{table.where(column, row)}: '{shortened(value)}' is not a number: {_FIX}"


def wrong_words(table: Table, column: Column) -> Iterator[tuple[int, str]]:
    """The rows in which a column of words has none, with the cause."""
    for row, value in enumerate(column.values):
        if is_missing(value):
            yield row, missing(table, column, row)


def missing(table: Table, column: Column, row: int) -> str:
    """What is wrong with a cell that holds nothing."""
    return (
        f"{table.where(column, row)}: the value is missing ('{column.values[row]}'); fill it in, "
        "leave out the row, or --skip-bad for all such rows; `train --missing` has models that "
        "take such values"
    )


def listed(names: Sequence[str]) -> str:
    """Names for a message, the first of them if there are many."""
    more = len(names) - _LISTED
    return ", ".join(map(shortened, names[:_LISTED])) + (f" and {more} more" if more > 0 else "")
