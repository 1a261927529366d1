"""A comparison as a table for a person, and as JSON or CSV for a script."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from phalanx.observe import table_files
from phalanx.observe.fairness import host_name
from phalanx.observe.plan import CPU
from phalanx.observe.rows import FinishedRun, Row, is_baseline, plain, speed_ups
from phalanx.wording import byte_size

UNKNOWN = "–"
#: Two lines each at most, so that all columns fit on a terminal of 80.
_NUMBERS = (
    "ranks",
    "that\ntrain",
    "threads",
    "time\nin s",
    "samples\n/s",
    "speed-\nup",
    "score",
    "bytes\na step",
    "memory\na rank",
)
#: Columns from which on there is space between the columns of a table.
_ROOMY = 100


def comparison_table(
    rows: Sequence[Row], *, title: str, width: int, numbered: bool = False
) -> Table:
    """One row a training, for a console of this width; `numbered` for runs that are listed."""
    table = plain_look(title, width)
    devices = any(row.device != CPU for row in rows)
    for name in ("run",) * numbered + ("strategy",) + ("device",) * devices:
        table.add_column(name, overflow="fold")
    score = score_of(rows)[0]
    for name in _NUMBERS:
        table.add_column(score if name == "score" else name, justify="right", overflow="fold")
    for number, (row, speed) in enumerate(zip(rows, speed_ups(rows), strict=True), start=1):
        names = [str(number)] * numbered + [row.strategy] + [row.device] * devices
        table.add_row(*map(Text, names), *map(Text, _cells(row, speed)))
    return table


def score_of(rows: Sequence[Row]) -> tuple[str, str]:
    """What tests are judged by: the title of its column, and its name."""
    if all(row.test_accuracy is None for row in rows):
        if any(row.test_r2 is not None for row in rows):
            return "R²", "R²"
        if any(row.test_f1 is not None for row in rows):
            return "F1\nmicro", "F1"
    return "accu-\nracy %", "accuracy"


def scored(row: Row) -> str:
    """What its test came to, by what it is judged by."""
    if row.test_accuracy is not None:
        return cell(100 * row.test_accuracy, ".2f")
    return cell(row.test_f1 if row.test_r2 is None else row.test_r2, ".4f")


def _cells(row: Row, speed: float | None) -> list[str]:
    return [
        cell(row.ranks, "d"),
        cell(row.training_ranks, "d"),
        cell(row.threads, "d"),
        row.short or cell(row.seconds, ".2f"),
        cell(row.samples_per_second, ",.0f"),
        cell(speed, ".2f", "×"),
        scored(row),
        _size(row.bytes_per_step),
        _size(row.memory_bytes_per_rank),
    ]


def caption(rows: Sequence[Row], *, repeats: int = 1) -> list[str]:
    """What the columns mean, a line each."""
    based = any(is_baseline(row) and row.samples_per_second for row in rows)
    return [
        "that train: ranks that compute gradients. time: of the training alone"
        + (f", the best of {repeats}." if repeats > 1 else "."),
        "speed-up: in samples/s, over single with 1 thread."
        if based
        else "speed-up: unknown, as single with 1 thread is not among them.",
        f"{score_of(rows)[1]}: on the test samples. memory a rank: of the one that uses most.",
        "bytes a step: what all ranks together hand to MPI.",
    ]


def machine_table(runs: Sequence[FinishedRun], *, width: int) -> Table:
    """Which runs they are and where they ran; with which versions, as far as these differ."""
    table = plain_look("Runs and hosts", width)
    packages = [
        name
        for name in dict.fromkeys(name for run in runs for name in run.versions)
        if len({run.versions.get(name) for run in runs}) > 1
    ]
    for name in ("run", "folder", "host", *packages):
        table.add_column(name, overflow="fold")
    for number, run in enumerate(runs, start=1):
        versions = [run.versions.get(name, UNKNOWN) for name in packages]
        table.add_row(*map(Text, (str(number), run.row.run, host_name(run.host), *versions)))
    return table


def common_versions(runs: Sequence[FinishedRun]) -> str:
    """The versions that all runs had, on a line."""
    first, *others = (run.versions for run in runs)
    same = [
        f"{name} {version}"
        for name, version in first.items()
        if all(other.get(name) == version for other in others)
    ]
    return f"versions: {', '.join(same) or UNKNOWN}"


def plain_look(title: str, width: int) -> Table:
    """An empty table without lines, for a console of this width."""
    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1) if width >= _ROOMY else (0, 0),
    )


def _size(count: float | None) -> str:
    return UNKNOWN if count is None else byte_size(count)


def cell(value: float | None, form: str, unit: str = "") -> str:
    """A cell with a number, or with what says that it is not known."""
    return UNKNOWN if value is None else f"{value:{form}}{unit}"


def write_json(path: Path, rows: Sequence[Row], *, about: dict[str, Any]) -> None:
    """Write the comparison as one JSON object: what it is about, and its rows."""
    table_files.write_json(path, about | {"rows": plain(rows)})


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write the comparison as CSV; what is not known is empty."""
    table_files.write_csv(path, plain(rows))
