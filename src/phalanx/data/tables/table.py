"""A table of a user's own, parsed: columns of numbers, and columns of anything else.

A column is numeric if every value in it is a number. Cells may be missing: whoever uses a column
checks it first, by `check_cells`. Without torch.
"""

import csv
import gzip
import zlib
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from phalanx.data.tables.cells import parse_number
from phalanx.data.tables.delimiter import cells_of, find_delimiter
from phalanx.data.tables.header import has_header
from phalanx.errors import DataError, UsageError

#: So many lines tell the delimiter.
_SAMPLE_LINES = 100


@dataclass(frozen=True)
class Column:
    """One column: its name, its values as they are written, and as numbers if all of them are."""

    name: str
    values: list[str]
    numbers: list[float] | None


@dataclass(frozen=True)
class Table:
    """A table in which no row is shorter than another; `lines` are those of its rows in the file.

    There is one row at least.
    """

    path: Path
    columns: tuple[Column, ...]
    lines: tuple[int, ...]

    def where(self, column: Column, row: int) -> str:
        """The place of a cell, for a message; rows count from 0."""
        return f"{self.path}: line {self.lines[row]}, column '{column.name}'"

    def index(self, column: str, *, option: str) -> int:
        """The position of a column given by its name, or by its number from 0, or back from -1."""
        names = [one.name for one in self.columns]
        if column in names:
            return names.index(column)
        try:
            return range(len(names))[int(column)]
        except (ValueError, IndexError):
            raise UsageError(
                f"{option} {column}: {self.path} has columns {', '.join(names)}, or 0 to "
                f"{len(names) - 1}"
            ) from None


def read_table(path: Path, *, header: bool | None = None) -> Table:
    """The table in a file, plain or gzipped.

    Whether its first row is a header shows by itself, unless `header` says so.
    """
    rows = _read_rows(path)
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise DataError(f"{path}: line {line} has {len(row)} columns, the first has {width}")
    lines = [line for line, _ in rows]
    columns = [list(cells) for cells in zip(*(row for _, row in rows), strict=True)]
    names = [f"column {index}" for index in range(width)]
    if header is None:
        header = has_header(columns)
    if header:
        names = [cells.pop(0) for cells in columns]
        _check_names(path, names)
        del lines[0]
    if not lines:
        raise DataError(f"{path}: a header and no rows after it: add some")
    return Table(path, tuple(map(_column, names, columns)), tuple(lines))


def _read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that are not blank, each with its line number."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        opened = gzip.open if packed else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            delimiter = find_delimiter(list(islice(file, _SAMPLE_LINES)))
            file.seek(0)
            rows = list(cells_of(file, delimiter))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a table of text: {error}") from error
    if not rows:
        raise DataError(f"{path}: no rows in it")
    return rows


def _check_names(path: Path, names: list[str]) -> None:
    shared = [f"'{name}'" for name, count in Counter(names).items() if count > 1]
    if shared:
        raise DataError(
            f"{path}: several columns are called {', '.join(shared)}: give each a name of its own "
            "in the first row"
        )


def _column(name: str, values: list[str]) -> Column:
    numbers = []
    for value in values:
        number = parse_number(value)
        if number is None:
            return Column(name, values, None)
        numbers.append(number)
    return Column(name, values, numbers)
