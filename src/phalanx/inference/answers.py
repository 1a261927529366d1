"""A model's answers, some rows at a time, and the files that they are written to."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO, cast

import numpy as np
from torch import Tensor

from phalanx.data.arrays import Array
from phalanx.errors import UsageError
from phalanx.inference.answer_formats import answers_suffix
from phalanx.inference.answer_kinds import AnswerKind, Cells, Column
from phalanx.whole_files import whole_file

#: The rows that are made texts and numbers of at a time.
ROWS = 4096
#: The column of samples' numbers, unless one of the user's own has this name.
INDEX = "index"
_WRITERS = {
    ".parquet": "phalanx.inference.answers_parquet",
    ".npz": "phalanx.inference.answers_npz",
}


class Writer(Protocol):
    """A module that writes answers to a file."""

    def write(self, answers: "Answers", file: BinaryIO) -> None: ...


@dataclass(frozen=True)
class Block:
    """Some rows: what is known about all of them, and outputs for those that are `answered`."""

    kind: AnswerKind
    indices: range
    answered: Array
    outputs: Tensor
    beside: list[Sequence[str]]
    labels: list[Cells]

    @cached_property
    def cells(self) -> list[Cells]:
        """The columns of answers and of details, for the rows that are answered alone."""
        return self.kind.cells(self.outputs)


@dataclass(frozen=True)
class Answers:
    """A model's outputs, a row a sample, what they say, and what they are to be written with.

    Where some samples could not be read, `places` says which ones of all the outputs are for, in
    rising order. What is known about all of them, answered or not, stands `beside` their numbers,
    by the name of its column, and as `labels` what they are said to be.
    """

    outputs: Tensor
    kind: AnswerKind
    places: Sequence[int] | None = None
    count: int | None = None
    beside: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Sequence[Any] | None = None

    def save(self, path: Path) -> None:
        """Write the answers to a file, which appears whole or not at all, as its ending says."""
        suffix = answers_suffix(path)
        with whole_file(path) as beside:
            if suffix == ".csv":
                with beside.open("w", newline="", encoding="utf-8") as text:
                    self.write(text)
                return
            writer = cast(Writer, import_module(_WRITERS[suffix]))
            with beside.open("wb") as file:
                writer.write(self, file)

    def write(self, file: TextIO) -> None:
        """One row a sample, as csv: its index, what stands beside it, its answer, what it is said
        to be, and the details. One that could not be read has no answer and no details.
        """
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in self.columns])
        kind, lead = self.kind, len(self.kind.answer_columns)
        said_columns = (*kind.answer_columns, *kind.detail_columns)
        for block in self.blocks():
            known = [*block.beside, *_as_texts(kind.label_columns, block.labels)]
            nothing = [""] * len(block.cells)
            answered = zip(*_as_texts(said_columns, block.cells), strict=True)
            rows = zip(*known, strict=True) if known else iter([()] * len(block.indices))
            for index, is_answered, row in zip(block.indices, block.answered, rows, strict=True):
                said = next(answered) if is_answered else nothing
                beside, labels = row[: len(block.beside)], row[len(block.beside) :]
                number = [] if INDEX in self.beside else [index]
                writer.writerow([*number, *beside, *said[:lead], *labels, *said[lead:]])

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a table of answers, in their order; the index is one of numbers."""
        number = () if INDEX in self.beside else (Column(INDEX, "number"),)
        beside = (Column(name, "text") for name in self.beside)
        labels = () if self.labels is None else self.kind.label_columns
        kind = self.kind
        return (*number, *beside, *kind.answer_columns, *labels, *kind.detail_columns)

    @property
    def rows(self) -> int:
        """How many samples there are, answered or not."""
        return len(self.outputs) if self.count is None else self.count

    def blocks(self) -> Iterator[Block]:
        """All rows in their order, some at a time."""
        places = np.arange(len(self.outputs)) if self.places is None else np.asarray(self.places)
        for start in range(0, self.rows, ROWS):
            indices = range(start, min(start + ROWS, self.rows))
            first, last = np.searchsorted(places, (indices.start, indices.stop)).tolist()
            answered = np.zeros(len(indices), dtype=bool)
            answered[places[first:last] - start] = True
            outputs, part = self.outputs[first:last], slice(indices.start, indices.stop)
            labels = [] if self.labels is None else self.kind.labels(self.labels[part])
            beside = [values[part] for values in self.beside.values()]
            yield Block(self.kind, indices, answered, outputs, beside, labels)


def check_names(kind: AnswerKind, beside: Iterable[str]) -> None:
    """Refuse a column beside the answers that is called as one of theirs."""
    theirs = (*kind.answer_columns, *kind.label_columns, *kind.detail_columns)
    for name in set(beside) & {column.name for column in theirs}:
        raise UsageError(
            f"--id {name}: answers have a column '{name}' themselves: give that of your table "
            "another name"
        )


def _as_texts(columns: Iterable[Column], cells: Iterable[Cells]) -> Iterator[Sequence[str]]:
    """The cells of columns as text; numbers that are none are empty."""
    for column, one in zip(columns, cells, strict=False):  # there may be no labels
        if isinstance(one, np.ndarray):
            digits = column.digits
            yield ["" if value != value else f"{value:.{digits}g}" for value in one.tolist()]
        else:
            yield one
