"""What a person sees of a sweep: where it is and how long it will still take, and its table."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from phalanx.cli.output.comparison import cell, plain_look, score_of, scored
from phalanx.observe.sweep.axes import shown
from phalanx.observe.sweep.results import Outcome, sizes_vary, speed_ups
from phalanx.wording import key

#: Seconds between two lines about the same training, where there is no terminal.
_APART = 60.0


@final
class SweepDisplay(AbstractContextManager["SweepDisplay"]):
    """Lines on standard error; on a terminal the last one changes, elsewhere it comes seldom."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        # No refresh thread: it would take time from the ranks of the training under way.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next = 0.0

    def __enter__(self) -> "SweepDisplay":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._next = time.monotonic() + _APART
        if self._console.is_terminal:
            self._live.update(Text(""), refresh=True)
        self._console.print(text, soft_wrap=True)

    def show(self, text: str) -> None:
        """What is so just now."""
        if self._console.is_terminal:
            shown = Text(text, no_wrap=True, overflow="ellipsis", style="dim")
            self._live.update(shown, refresh=True)
        elif time.monotonic() > self._next:
            self.say(text)


def sweep_table(outcomes: Sequence[Outcome], *, title: str, width: int) -> Table:
    """One row a training: what varies, and what came of it."""
    table = plain_look(title, width)
    names = list(outcomes[0].combination.values)
    speeds = speed_ups(outcomes)
    fast = ["speed-\nup"] if "ranks" in names else []
    rows = [one.row for one in outcomes]
    fixed = [name for name in ("threads",) if name not in names]
    sized = ["para-\nmeters"] if sizes_vary(names) else []
    numbers = (*sized, *fixed, "time\nin s", "samples\n/s", *fast, score_of(rows)[0])
    for name in (*map(key, names), *numbers):
        table.add_column(name, justify="right", overflow="fold")
    for one, speed in zip(outcomes, speeds, strict=True):
        row = one.row
        cells = [
            *(cell(row.parameters, ",d") for _ in sized),
            *(cell(row.threads, "d") for _ in fixed),
            row.short or cell(row.seconds, ".2f"),
            cell(row.samples_per_second, ",.0f"),
            *(cell(speed, ".2f", "×") for _ in fast),
            scored(row),
        ]
        values = [shown(one.combination.values[name]) for name in names]
        table.add_row(*map(Text, (*values, *cells)))
    return table


def caption(outcomes: Sequence[Outcome]) -> list[str]:
    """What the columns mean, a line each."""
    score = score_of([one.row for one in outcomes])[1]
    lines = [f"time: of the training alone. {score}: on the test samples."]
    if "ranks" in outcomes[0].combination.values:
        fewest = min(one.combination.ranks for one in outcomes)
        lines.append(f"speed-up: in samples/s, over the same on {fewest} rank{'s'[: fewest > 1]}.")
    return lines
