"""What a verification has found, as a table and as a file."""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from phalanx.cli.output.console import wide_console
from phalanx.observe.verify.compared import root
from phalanx.observe.verify.traces import ABOUT
from phalanx.observe.verify.verification import Verdict
from phalanx.runs.writing import writing
from phalanx.settings.table import Settings
from phalanx.whole_files import whole_file
from phalanx.wording import counted


def show(verdicts: Sequence[Verdict], settings: Settings, *, steps: int) -> None:
    """Print what each way came to, what differs first, and what that can come from."""
    console, shards = wide_console(), verdicts[0].way.settings.shards
    how = "" if shards is None else f", {shards} shards"
    title = f"{settings.model} on {settings.dataset}: {counted(steps, 'step')}{how}"
    console.print(title, style="bold", highlight=False)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("trained on", overflow="fold")
    for about in ABOUT:
        table.add_column(about.replace(" ", "\n"), overflow="fold")
    for number, one in enumerate(verdicts):
        table.add_row(one.way.name.replace(", then ", ",\nthen "), *_cells(one, first=number == 0))
    console.print(table)
    causes = dict.fromkeys(cause for one in verdicts for cause in _causes(one))
    for text in [*(text for one in verdicts for text in _explained(one)), *causes]:
        console.print(textwrap.fill(text, console.width), highlight=False)
    wrong = sum(not one.holds for one in verdicts)
    others = counted(len(verdicts) - 1, "way")
    console.print(
        f"{wrong} of {others} did not come to the same" if wrong else _promise(verdicts, others),
        style="bold red" if wrong else "bold green",
        highlight=False,
    )


def _promise(verdicts: Sequence[Verdict], others: str) -> str:
    if all(one.way.tolerance is None for one in verdicts):
        return f"all {others} came to the same, bit for bit"
    return f"all {others} came to what is promised"


def _cells(one: Verdict, *, first: bool) -> list[str]:
    if first:
        return ["compared with"] + [""] * (len(ABOUT) - 1)
    if one.failure is not None:
        return ["failed"] + [""] * (len(ABOUT) - 1)
    if one.distance is not None:
        return ["", "", f"within {one.distance:.1e}", "", ""]
    found = one.differences
    return [f"step {found[about].step}" if about in found else "same" for about in ABOUT]


def _explained(one: Verdict) -> list[str]:
    if one.holds:
        return []
    if one.failure is not None:
        return [f"{one.way.name}: {one.failure}"]
    first = root(one.differences)
    if first is None:
        return [f"{one.way.name}: weights differ by up to {one.distance}"]
    return [f"{one.way.name}: differs first in {first.about}, {first}"]


def _causes(one: Verdict) -> list[str]:
    """What it can come from; ways that differ alike have one cause."""
    first = root(one.differences)
    return [f"Likely: {first.cause}"] if first is not None and first.cause else []


def write_json(path: Path, verdicts: Sequence[Verdict], *, steps: int) -> None:
    """Write it all down."""
    rows = [
        {
            "way": one.way.name,
            "ranks": one.way.ranks,
            "strategy": one.way.settings.strategy,
            "after": one.way.after,
            "as promised": one.holds,
            "differences": {name: str(found) for name, found in one.differences.items()},
            "distance": one.distance,
            "failure": one.failure,
        }
        for one in verdicts
    ]
    with writing(path), whole_file(path) as beside:
        beside.write_text(json.dumps({"steps": steps, "ways": rows}, indent=2) + "\n")
