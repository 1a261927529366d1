"""Advice on ranks as it is printed, and written to files."""

import json
import textwrap
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from phalanx.cli.output.console import wide_console
from phalanx.observe.advise.advice import Advice, Row
from phalanx.observe.advise.measurements import Measurements
from phalanx.observe.advise.verdict import duration, headline, sentences
from phalanx.runs.writing import writing
from phalanx.whole_files import whole_file


def teller(speaks: bool) -> Callable[[str], None]:
    """What says on the first rank what is being measured, and since when."""
    console, started = Console(stderr=True, markup=False, emoji=False), time.monotonic()

    def tell(text: str) -> None:
        if speaks:
            passed = time.monotonic() - started
            console.print(f"[{passed:4.0f} s] measuring {text} …", highlight=False, soft_wrap=True)

    return tell


def show(found: Measurements, advice: Advice, *, epochs: int) -> None:
    """Print the answer, the reasons, the table and what would help."""
    console = wide_console()
    console.print(headline(advice), style="bold", highlight=False, markup=False)
    for text in sentences(found, advice, epochs=epochs):
        console.print(textwrap.fill(text, console.width), highlight=False, markup=False)
    console.print()
    console.print(_table(advice))
    if advice.helps:
        title = f"What would help {advice.about:,} ranks, each by itself"
        console.print()
        console.print(title, highlight=False, markup=False)
    for one in advice.helps:
        saved = f"{duration(one.seconds)} an epoch, {one.saves:.0%} less"
        text = f"  {one.flags}: {saved}. It is {one.what}; {one.but}."
        wrapped = textwrap.fill(text, console.width, subsequent_indent="    ")
        console.print(wrapped, highlight=False, markup=False)


def _table(advice: Advice) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    names = ("ranks", "hosts", "an epoch", "from", "to", "speed-up", "efficiency")
    factors = ("load\nbalance", "commu-\nnication", "compu-\ntation")
    for name in (*names, *factors, ""):
        table.add_column(name, justify="right", no_wrap=True)
    for row in advice.rows:
        table.add_row(*_cells(row, advice))
    return table


def _cells(row: Row, advice: Advice) -> list[str]:
    note = "measured" if row.measured else ""
    if row.ranks == advice.use:
        note = f"← {note}" if note else "←"
    return [
        f"{row.ranks:,}",
        f"{row.hosts:,}",
        *map(duration, (row.seconds, row.least, row.most)),
        f"{row.speed_up:.3g}×",
        f"{row.efficiency:.0%}",
        *(
            f"{one:.2f}"
            for one in (
                row.load_balance,
                row.communication_efficiency,
                row.computation_scalability,
            )
        ),
        note,
    ]


def write_json(path: Path, found: Measurements, advice: Advice) -> None:
    """Write what was measured and what follows as one JSON object."""
    text = json.dumps(advice.for_json() | {"measurements": asdict(found)}, indent=2)
    with writing(path), whole_file(path) as beside:
        beside.write_text(text + "\n", encoding="utf-8")


def write_plot(path: Path, found: Measurements, advice: Advice) -> None:
    """Draw it."""
    from phalanx.observe.advise.plot import draw

    with writing(path):
        draw(path, found, advice)
