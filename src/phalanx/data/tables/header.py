"""Whether the first row of a table names its columns. Without torch."""

from collections.abc import Sequence

from phalanx.data.tables.cells import has_separators, is_infinite, is_missing, parse_number

Cells = Sequence[str]

#: So many columns named 0, 1, 2 … by a program are told from values that happen to count up.
_FEWEST_COUNTED = 3


def has_header(columns: Sequence[Cells]) -> bool:
    """Whether the first cell of each column is its name.

    It is if one is a word above numbers, or if all are words that are found nowhere below, save
    numbers that count the columns from 0.
    """
    if any(_names_numbers(cells) for cells in columns):
        return True
    if any(has_separators(cells[0]) for cells in columns):
        return False
    numbers = [cells[0] for cells in columns if parse_number(cells[0]) is not None]
    words = [cells for cells in columns if parse_number(cells[0]) is None]
    if numbers and not (words and len(words[0]) > 1 and _counts_columns(numbers)):
        return False
    unlike = len({cells[0] for cells in words}) == len(words)
    return unlike and not any(_recurs(cells) for cells in words)


def _names_numbers(cells: Cells) -> bool:
    """Whether a word stands above numbers, some of which may be missing."""
    if not _is_word(cells[0]):
        return False
    some = False
    for index in range(1, len(cells)):
        if parse_number(cells[index]) is not None:
            some = True
        elif not is_missing(cells[index], beside_numbers=True):
            return False
    return some


def _is_word(text: str) -> bool:
    # 1.5 kg above numbers is more likely one of them than their name.
    like_number = text.lstrip("+-.")[:1].isdigit() or is_infinite(text)
    return not like_number and not is_missing(text, beside_numbers=True)


def _counts_columns(numbers: list[str]) -> bool:
    return len(numbers) >= _FEWEST_COUNTED and numbers == [str(n) for n in range(len(numbers))]


def _recurs(cells: Cells) -> bool:
    return any(cells[index] == cells[0] for index in range(1, len(cells)))
