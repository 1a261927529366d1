"""What a page shows, as plain data: sections of tables, charts and sentences. The page draws it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

#: How a number is written: as measured, as somebody set it, in parts of a hundred, seconds, bytes …
Kind = Literal[
    "text", "number", "setting", "count", "percent", "share", "seconds", "bytes", "ratio", "rate"
]
Cell = str | float | None


@dataclass(frozen=True)
class Column:
    """A column of a table; `about` explains it to whoever points at its title."""

    title: str
    kind: Kind = "text"
    about: str = ""


@dataclass(frozen=True)
class Table:
    """Rows that a reader can sort by each column; None is what is not known."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    #: Whether all of it is shown at once, or a line to open it.
    folded: bool = False
    type: str = "table"


@dataclass(frozen=True)
class Fact:
    """A number, or a few words, that a reader should see first."""

    label: str
    value: Cell
    kind: Kind = "text"
    about: str = ""


@dataclass(frozen=True)
class Facts:
    facts: Sequence[Fact]
    type: str = "facts"


@dataclass(frozen=True)
class Series:
    """One of a chart's curves, or one part of its bars.

    `tone` is what its colour stands for: a number that tells runs apart, or a word such as the name
    of a phase.
    """

    name: str
    points: Sequence[tuple[float, float | None]]
    tone: int | str = 0
    style: Literal["solid", "dashed", "dotted"] = "solid"
    markers: bool = False
    #: Of the curve; those that others would hide are wider.
    width: float = 2.0


@dataclass(frozen=True)
class Axis:
    title: str
    kind: Kind = "number"
    log: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves over the same axis, all of them seen when one is pointed at."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    note: str = ""
    type: str = "chart"


@dataclass(frozen=True)
class Part:
    """What each bar has of one thing."""

    name: str
    values: Sequence[float | None]
    tone: int | str = 0


@dataclass(frozen=True)
class Bars:
    """Bars beside each other, or lying one below the other, each made of all parts."""

    title: str
    axis: Axis
    names: Sequence[str]
    parts: Sequence[Part]
    lying: bool = False
    #: What the names are, where the bars stand.
    of: str = ""
    note: str = ""
    type: str = "bars"


@dataclass(frozen=True)
class Matrix:
    """Counts by what is right (rows) and what was answered (columns), as a heat map."""

    title: str
    names: Sequence[str]
    counts: Sequence[Sequence[int]]
    type: str = "matrix"


@dataclass(frozen=True)
class Text:
    """A sentence; one of `tone` "missing" says what is not there, and how to have it."""

    text: str
    tone: Literal["plain", "missing", "warning"] = "plain"
    type: str = "text"


@dataclass(frozen=True)
class Choice:
    """The same for several runs, of which a reader sees one at a time."""

    label: str
    names: Sequence[str]
    blocks: Sequence[Sequence["Block"]]
    type: str = "choice"


Block = Table | Facts | Chart | Bars | Matrix | Text | Choice


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    heading: str
    blocks: Sequence[Block]
    lead: str = ""


@dataclass(frozen=True)
class Document:
    """A whole page."""

    title: str
    sections: Sequence[Section]
    lead: str = ""
    #: Said at the end of the page.
    footer: str = ""


def each(label: str, named: Sequence[tuple[str, Sequence[Block]]]) -> list[Block]:
    """What there is for each name: as it is if there is one, to choose from if there are more."""
    if len(named) == 1:
        return [*named[0][1]]
    return [Choice(label, [name for name, _ in named], [blocks for _, blocks in named])]


def number(value: Any) -> float | None:
    """A value of a file, if it is a number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
