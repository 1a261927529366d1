"""The memory that runs took: of each rank, and of a host."""

from collections.abc import Sequence

from phalanx.observe.recorded import RecordedRun
from phalanx.observe.report.document import (
    Axis,
    Bars,
    Block,
    Cell,
    Column,
    Part,
    Section,
    Table,
    Text,
    number,
)

_MOST_RANKS = 64


def memory(runs: Sequence[RecordedRun]) -> Section:
    """A row a run, and bars for its ranks."""
    known = [run for run in runs if number(run.known("memory_bytes_per_rank")) is not None]
    if not known:
        return Section(
            "Memory", [Text("No memory recorded: the training has not come to its end.", "missing")]
        )
    rows: list[list[Cell]] = [
        [
            run.name,
            run.ranks,
            number(run.known("memory_bytes_per_rank")),
            number(run.known("memory_bytes")),
        ]
        for run in known
    ]
    blocks: list[Block] = [
        Table(
            "",
            [
                Column("run"),
                Column("ranks", "count"),
                Column("largest rank", "bytes"),
                Column("first host", "bytes", "all ranks of the host that rank 0 is on"),
            ],
            rows,
        )
    ]
    blocks += _by_rank(known, named=len(runs) > 1)
    return Section(
        "Memory",
        blocks,
        "At the end of the training; memory that ranks share counts "
        "in part for each, so that sums add up.",
    )


def _by_rank(runs: Sequence[RecordedRun], *, named: bool) -> list[Block]:
    """A bar a rank, with the run's name if there are several."""
    bars = [
        (f"{run.name}, rank {rank}" if named else f"rank {rank}", one)
        for run in runs
        for rank, one in enumerate(run.known("memory_bytes_by_rank") or ())
    ]
    if not 1 < len(bars) <= _MOST_RANKS:
        return []
    names, values = zip(*bars, strict=True)
    parts = [Part("memory", values)]
    return [Bars("By rank", Axis("memory", "bytes"), names, parts, lying=True)]
