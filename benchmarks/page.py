"""A dated report as a page to look at, in the form of `phalanx report`.

`python -m benchmarks.page benchmarks/reports/DATE.md` writes DATE.html beside it.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from phalanx.observe.report.document import (
    Axis,
    Bars,
    Block,
    Cell,
    Column,
    Document,
    Kind,
    Part,
    Section,
    Table,
    Text,
)
from phalanx.observe.report.html import write_page

_RATE = "samples/s"
_NONE = "–"
_WHOLE = re.compile(r"\d{1,3}(,\d{3})*")
_NUMBER = re.compile(r"[\d.,e+]+ ?(%|µs|ms|s|[KM]?i?B)?")


def page_of(text: str) -> Document:
    """The document that a report in Markdown is."""
    title, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    heading, _, first = title.removeprefix("# ").partition("\n")
    lead, _, machine = first.strip().partition("\n\n")
    sections = [Section("Machine", [*_blocks(machine)])]
    for part in parts:
        name, _, rest = part.partition("\n")
        sections.append(Section(name, [*_blocks(rest)]))
    return Document(heading, sections, lead=lead.replace("`", ""))


def _blocks(text: str) -> Iterator[Block]:
    """Tables, with bars where they tell of a rate; commands; and what else is said."""
    title = ""
    for paragraph in re.split(r"\n{2,}(?!#? ?[^\n]*\n```)", text.strip()):
        if paragraph.startswith("### "):
            title = paragraph.removeprefix("### ")
        elif paragraph.startswith("```"):
            yield _commands(paragraph)
        elif paragraph.startswith("|"):
            yield from _table(title, paragraph)
        elif paragraph:
            said = " ".join(paragraph.replace("*", "").split())
            yield Text(f"{title}: {said}" if title else said)


def _table(title: str, text: str) -> Iterator[Block]:
    header, _, *lines = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()
    )
    columns = [[line[index] for line in lines] for index in range(len(header))]
    kinds = [_kind(cells) for cells in columns]
    rows = [[_cell(cell, kind) for cell, kind in zip(line, kinds, strict=True)] for line in lines]
    heads = [Column(name, kind) for name, kind in zip(header, kinds, strict=True)]
    yield Table(title, heads, rows)
    if _RATE in header:
        place = header.index(_RATE)
        known = [(str(row[0]), row[place]) for row in rows if isinstance(row[place], int)]
        names, rates = zip(*known, strict=True)
        yield Bars(
            f"{title}, {_RATE}", Axis(_RATE, "rate"), names, [Part(_RATE, rates)], lying=True
        )


def _kind(cells: Sequence[str]) -> Kind:
    measured = [cell for cell in cells if cell[:1].isdigit()]
    if measured and all(_WHOLE.fullmatch(cell) for cell in measured):
        return "count"
    return "number" if measured and all(map(_NUMBER.fullmatch, measured)) else "text"


def _cell(text: str, kind: Kind) -> Cell:
    """Whole numbers as numbers; others as they are written, with the digits that they have."""
    if kind == "count" and _WHOLE.fullmatch(text):
        return int(text.replace(",", ""))
    return None if text == _NONE else text


def _commands(text: str) -> Table:
    lines = text.strip("`").removeprefix("sh").strip().splitlines()
    pairs = zip(lines[::2], lines[1::2], strict=False)
    rows = [[name.removeprefix("# "), command] for name, command in pairs]
    return Table("Commands", [Column("what"), Column("command")], rows, folded=True)


def main(words: Sequence[str]) -> None:
    for name in words:
        report = Path(name)
        write_page(page_of(report.read_text(encoding="utf-8")), report.with_suffix(".html"))
        print(report.with_suffix(".html"))


if __name__ == "__main__":
    main(sys.argv[1:])
