"""Whether every cell of a column can be learnt from. Without torch."""

from phalanx.data.cells import is_infinite, is_missing, parse_number
from phalanx.data.table import Column, Table
from phalanx.errors import DataError

# A column of so many cells, of which at most one in ten is no number, is meant to hold numbers.
_FEWEST_CELLS = 10
_ONE_WORD_IN = 10


def check_cells(table: Table, column: Column, *, fix: str) -> None:
    """Raise a DataError with the first cell that is missing, or is no number where it should be.

    `fix` says what else than correcting the cell a user can do.
    """
    if column.numbers is not None:
        return
    numbers = [parse_number(value) is not None for value in column.values]
    some, mostly = any(numbers), _mostly(numbers)
    for row, (value, is_number) in enumerate(zip(column.values, numbers, strict=True)):
        if is_number:
            continue
        if is_missing(value, beside_numbers=some):
            cause = f"the value is missing ('{value}'); fill it in"
        elif some and is_infinite(value):
            cause = f"'{value}' is not a finite number; correct the cell"
        elif mostly:
            cause = f"'{value}' is not a number, as nearly all others are; correct the cell"
        else:
            continue
        raise DataError(f"{table.where(column, row)}: {cause}, {fix}")


def _mostly(numbers: list[bool]) -> bool:
    words = len(numbers) - sum(numbers)
    return len(numbers) >= _FEWEST_CELLS and words * _ONE_WORD_IN <= len(numbers)
