"""A table of a user's own, parsed: columns of numbers, columns of categories, and the class.

A column is numeric if every value in it is a number; any other is one of categories. Without torch.
"""

import csv
import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

from phalanx.errors import DataError, UsageError

_DELIMITERS = (",", ";", "\t")
_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))


@dataclass(frozen=True)
class Column:
    """One column: its name, its values as they are written, and as numbers if all of them are."""

    name: str
    values: list[str]
    numbers: list[float] | None


@dataclass(frozen=True)
class Table:
    """A table that is complete: no row is shorter than another, no value is missing."""

    path: Path
    columns: tuple[Column, ...]

    @property
    def rows(self) -> int:
        return len(self.columns[0].values)

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


def read_table(path: Path) -> Table:
    """The table in a file, plain or gzipped; whether its first row is a header shows by itself."""
    rows = _read_rows(path)
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width:
            raise DataError(f"{path}: line {line} has {len(row)} columns, the first has {width}")
    header = _has_header([row for _, row in rows])
    names = rows[0][1] if header else [f"column {index}" for index in range(width)]
    body = rows[1:] if header else rows
    if not body:
        raise DataError(f"{path}: a header and no rows after it")
    _check_complete(path, body, names)
    columns = [[row[index] for _, row in body] for index in range(width)]
    return Table(
        path,
        tuple(
            Column(name, values, _numbers(values))
            for name, values in zip(names, columns, strict=True)
        ),
    )


def _read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows that are not blank, each with its line number."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        opened = gzip.open if packed else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            delimiter = max(_DELIMITERS, key=first.count)
            reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: damaged gzip file: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a table of text: {error}") from error
    if not rows:
        raise DataError(f"{path}: no rows in it")
    return rows


def _has_header(rows: list[list[str]]) -> bool:
    """Whether the first row names the columns.

    It does if it has a word above a column of numbers, or nothing but words of its own.
    """
    first, *others = rows
    if not others or any(parse_number(cell) is not None for cell in first):
        return False
    columns = list(zip(*others, strict=True))
    if any(all(parse_number(cell) is not None for cell in column) for column in columns):
        return True
    recurs = any(cell in column for cell, column in zip(first, columns, strict=True))
    return len(set(first)) == len(first) and not recurs


def _check_complete(path: Path, rows: list[tuple[int, list[str]]], names: list[str]) -> None:
    for line, row in rows:
        for name, cell in zip(names, row, strict=True):
            if cell.lower() in _MISSING:
                raise DataError(
                    f"{path}: line {line}, column '{name}': the value is missing "
                    f"('{cell}'); fill it in, or leave out the row"
                )


def _numbers(values: list[str]) -> list[float] | None:
    numbers = []
    for value in values:
        number = parse_number(value)
        if number is None:
            return None
        numbers.append(number)
    return numbers


def parse_number(text: str) -> float | None:
    """The number that a cell holds, if it holds one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
