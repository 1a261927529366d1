"""What stands between the cells of a table, told from its first rows. Without torch."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from phalanx.data.tables.cells import has_separators, parse_number

#: Stands for any run of spaces and tabs.
SPACES = " "
_MARKS = (",", ";", "\t", "|")
# Spaces stand inside cells as well: hardly a row may differ if they are to part columns.
_NEARLY_ALL = 0.9
_MANY = 0.3


@dataclass(frozen=True)
class _Fit:
    """How well a delimiter fits some rows."""

    #: The share of rows that are of the most frequent width, which is more than one cell.
    alike: float
    #: The share of characters that stand in cells of a number, however that is written.
    numbers: float


def find_delimiter(lines: Sequence[str]) -> str:
    """The delimiter of a table that begins with these lines.

    It gives most rows the same width. Where several do so, as in 1,5;2,5, it is the one that leaves
    more numbers whole.
    """
    fits = {mark: fit for mark in _MARKS if (fit := _fit(lines, mark)).alike >= 0.5}
    best = max(fits, key=lambda mark: (fits[mark].numbers, fits[mark].alike), default=None)
    spaces = _fit(lines, SPACES)
    if spaces.alike < _NEARLY_ALL or spaces.numbers == 0:
        return best or ","
    if best is None or (best == "\t" and _mixes_tabs(fits[best], spaces)):
        return SPACES
    return best


def cells_of(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows in which any cell holds something, each with the number of its line."""
    if delimiter == SPACES:
        lines = (line.replace("\t", " ").rstrip() + "\n" for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    for row in reader:
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield reader.line_num, cells


def _mixes_tabs(tabs: _Fit, spaces: _Fit) -> bool:
    """Whether tabs are but some of the space between columns, as where they stand in twos."""
    return tabs.alike < spaces.alike or (tabs.numbers == 0 and spaces.numbers > _MANY)


def _fit(lines: Sequence[str], delimiter: str) -> _Fit:
    rows: list[list[str]] = []
    ended = False

    def until_the_end() -> Iterator[str]:
        nonlocal ended
        yield from lines
        ended = True

    try:
        for _, row in cells_of(until_the_end(), delimiter):
            rows.append(row)
    except csv.Error:
        if not ended:  # a quoted cell may go on after these lines, and is no fault of theirs
            return _Fit(0, 0)
    widths = Counter(len(row) for row in rows if len(row) > 1)
    if not widths:
        return _Fit(0, 0)
    cells = [cell for row in rows for cell in row]
    numbers = [cell for cell in cells if parse_number(cell) is not None or has_separators(cell)]
    return _Fit(max(widths.values()) / len(rows), len("".join(numbers)) / len("".join(cells)))
