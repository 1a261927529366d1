"""How much of a table is read: no line without end, and no more rows than memory holds.

How much a file unpacks to does not show before it is read. Without torch.
"""

from collections.abc import Iterable, Iterator
from io import TextIOBase
from pathlib import Path

from phalanx.data.containers.memory import free_memory
from phalanx.errors import DataError
from phalanx.wording import byte_size

#: So many characters are one line at most.
MOST_CHARACTERS = 4 << 20
#: So many lines, or characters, tell what a table is like.
_SAMPLE_LINES = 100
_SAMPLE_CHARACTERS = 1 << 20
#: What a line and a cell take in memory beside the characters: a text, a number and their places.
_LINE_BYTES = 150
_CELL_BYTES = 110


def limited_lines(file: TextIOBase) -> Iterator[str]:
    """The lines of a file; a ValueError for one that is too long to be a row."""
    number = 1
    while line := file.readline(MOST_CHARACTERS + 1):
        if len(line) > MOST_CHARACTERS:
            raise ValueError(f"line {number} has more than {MOST_CHARACTERS:,} characters")
        yield line
        number += 1


def sample_lines(file: TextIOBase) -> Iterator[str]:
    """The first lines of a file."""
    characters = 0
    for number, line in enumerate(limited_lines(file), start=1):
        yield line
        characters += len(line)
        if number == _SAMPLE_LINES or characters > _SAMPLE_CHARACTERS:
            return


def within_memory(
    rows: Iterable[tuple[int, list[str]]], path: Path
) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with its line; a DataError as soon as they take more memory than is free."""
    free = free_memory()
    for line, cells in rows:
        taken = _LINE_BYTES + _CELL_BYTES * len(cells) + sum(map(len, cells))
        free -= taken
        if free < 0:
            raise DataError(
                f"{path}: up to line {line} it takes all the {byte_size(free_memory())} of memory "
                "that are free: is the file damaged? Arrays in .npy files may be larger than memory"
            )
        yield line, cells
