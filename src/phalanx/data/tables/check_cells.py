"""Whether every cell of a column can be learnt from. Without torch."""

from collections.abc import Iterator

from phalanx.data.tables.cells import has_separators, is_infinite, is_missing, parse_number
from phalanx.data.tables.table import Column, Table
from phalanx.errors import DataError
from phalanx.wording import shortened

# A column of so many cells, of which at most one in ten is no number, is meant to hold numbers.
_FEWEST_CELLS = 10
_ONE_WORD_IN = 10


def wrong_cells(
    table: Table, column: Column, *, fix: str, may_miss: bool = False
) -> Iterator[tuple[int, str]]:
    """The rows of cells that are missing, or are no number where they should be, with the cause.

    `fix` says what else than correcting the cell a user can do. Missing values are no fault where
    they `may_miss`. A DataError if the whole column is written in another way.
    """
    if column.numbers is not None:
        return
    _check_separators(table, column)
    numbers = [parse_number(value) is not None for value in column.values]
    some = any(numbers)
    missing = [is_missing(value, beside_numbers=some) for value in column.values]
    mostly = _mostly([number for number, gap in zip(numbers, missing, strict=True) if not gap])
    for row, (value, is_number) in enumerate(zip(column.values, numbers, strict=True)):
        if is_number or (missing[row] and may_miss):
            continue
        if missing[row]:
            cause = f"the value is missing ('{value}'); fill it in"
        elif some and is_infinite(value):
            cause = f"'{shortened(value)}' is not a finite number; correct the cell"
        elif mostly:
            cause = (
                f"'{shortened(value)}' is not a number, as nearly all others are; correct the cell"
            )
        else:
            continue
        yield row, f"{table.where(column, row)}: {cause}, {fix}"


def _check_separators(table: Table, column: Column) -> None:
    """Raise if these are numbers that are written in another way; as words each is a category."""
    known = [row for row, value in enumerate(column.values) if not is_missing(value)]
    separated = [row for row in known if has_separators(column.values[row])]
    # 1,5 is seldom alone: 2 stands beside it as often. A few cells such as 1,2 are lists.
    if not separated or len(separated) * 2 < len(known):
        return
    plain = sum(parse_number(column.values[row]) is not None for row in known)
    if (len(known) - len(separated) - plain) * _ONE_WORD_IN <= len(known):
        row = separated[0]
        raise DataError(
            f"{table.where(column, row)}: '{shortened(column.values[row])}', as nearly all others "
            "there, has a decimal comma or sets thousands apart: write such numbers as 1.5 and 1234"
        )


def _mostly(numbers: list[bool]) -> bool:
    words = len(numbers) - sum(numbers)
    return len(numbers) >= _FEWEST_CELLS and words * _ONE_WORD_IN <= len(numbers)
