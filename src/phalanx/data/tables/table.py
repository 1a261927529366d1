"""A table of a user's own, parsed: columns of numbers, and columns of anything else.

A column is numeric if every value in it is a number. Cells may be missing: whoever uses a column
checks it first, by `check_cells`. Without torch.
"""

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from phalanx.data.tables.cells import parse_number
from phalanx.data.tables.delimiter import cells_of, find_delimiter
from phalanx.data.tables.encoding import open_text
from phalanx.data.tables.header import has_header
from phalanx.data.tables.limits import limited_lines, sample_lines, within_memory
from phalanx.errors import DataError, UsageError
from phalanx.wording import shortened


@dataclass(frozen=True)
class Column:
    """One column: its name, its values as they are written, and as numbers if all of them are."""

    name: str
    values: list[str]
    numbers: list[float] | None


@dataclass(frozen=True)
class Table:
    """A table in which no row is shorter than another; `lines` are those of its rows in the file.

    There is one row at least. Others may have been left out: `places` are those that its rows have
    among all `count` of the file, and `causes` are why.
    """

    path: Path
    columns: tuple[Column, ...]
    lines: tuple[int, ...]
    places: Sequence[int]
    count: int
    causes: tuple[str, ...] = ()

    def where(self, column: Column, row: int) -> str:
        """The place of a cell, for a message; rows count from 0."""
        return f"{self.path}: line {self.lines[row]}, column '{shortened(column.name)}'"

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

    def without(self, wrong: Mapping[int, str]) -> "Table":
        """The table without some rows, each with the cause; a DataError if none are left."""
        if not wrong:
            return self
        kept = [row for row in range(len(self.lines)) if row not in wrong]
        causes = (*self.causes, *wrong.values())
        if not kept:
            raise DataError(f"{self.path}: no row can be used; the first: {causes[0]}")
        return replace(
            self,
            columns=tuple(
                make_column(one.name, [one.values[row] for row in kept]) for one in self.columns
            ),
            lines=tuple(self.lines[row] for row in kept),
            places=[self.places[row] for row in kept],
            causes=causes,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about rows that were left out."""
        if not self.causes:
            return ()
        few = len(self.causes)
        rows = "1 row" if few == 1 else f"{few:,} rows"
        return (f"left out: {rows} of {self.count:,}, the first: {self.causes[0]}",)


def read_table(
    path: Path, *, header: bool | None = None, encoding: str | None = None, skip_bad: bool = False
) -> Table:
    """The table in a file, plain or gzipped.

    Whether its first row is a header shows by itself, unless `header` says so. Its encoding is that
    of its byte order mark, or UTF-8, unless `encoding` says so. With `skip_bad`, rows that have
    more or fewer cells than the first are left out.
    """
    whole = _read_rows(path, encoding)
    width = len(whole[0][1])
    causes = _odd_rows(path, whole, width=width)
    if causes and not skip_bad:
        raise DataError(f"{next(iter(causes.values()))}: correct it, or leave it out by --skip-bad")
    rows = [row for number, row in enumerate(whole) if number not in causes]
    lines = [line for line, _ in rows]
    columns = [list(cells) for cells in zip(*(row for _, row in rows), strict=True)]
    names = [f"column {index}" for index in range(width)]
    if header is None:
        header = has_header(columns)
    first = 1 if header else 0
    if header:
        names = [cells.pop(0) for cells in columns]
        _check_names(path, names)
        del lines[0]
    if not lines:
        raise DataError(f"{path}: a header and no rows after it: add some")
    return Table(
        path,
        tuple(map(make_column, names, columns)),
        tuple(lines),
        [number - first for number in range(first, len(whole)) if number not in causes],
        len(whole) - first,
        tuple(causes.values()),
    )


def _odd_rows(path: Path, rows: Sequence[tuple[int, list[str]]], *, width: int) -> dict[int, str]:
    """The rows of another width, each with what is wrong."""
    return {
        number: f"{path}: line {line} has {len(row)} columns, the first has {width}"
        for number, (line, row) in enumerate(rows)
        if len(row) != width
    }


def _read_rows(path: Path, encoding: str | None) -> list[tuple[int, list[str]]]:
    """The rows that are not blank, each with its line number."""
    try:
        with open_text(path, encoding) as file:
            delimiter = find_delimiter(list(sample_lines(file)))
            file.seek(0)
            rows = list(within_memory(cells_of(limited_lines(file), delimiter), path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (csv.Error, ValueError) as error:  # of bytes that are no text, too
        raise DataError(f"{path}: not a table of text: {error}") from error
    if not rows:
        raise DataError(f"{path}: no rows in it")
    return rows


def _check_names(path: Path, names: list[str]) -> None:
    shared = [f"'{shortened(name)}'" for name, count in Counter(names).items() if count > 1]
    if shared:
        raise DataError(
            f"{path}: several columns are called {', '.join(shared)}: give each a name of its own "
            "in the first row"
        )


def make_column(name: str, values: list[str]) -> Column:
    """A column of these values, which are numbers if every one is."""
    numbers = []
    for value in values:
        number = parse_number(value)
        if number is None:
            return Column(name, values, None)
        numbers.append(number)
    return Column(name, values, numbers)
