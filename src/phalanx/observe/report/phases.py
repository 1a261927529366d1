"""Where the time went: phases by rank and by epoch, and who waited for whom."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from phalanx.observe.recorded import RecordedRun, phases_of
from phalanx.observe.report.document import (
    Axis,
    Bars,
    Block,
    Chart,
    Column,
    Part,
    Section,
    Series,
    Table,
    Text,
    each,
)

#: Phases in which a rank depends on others.
TOGETHER = ("wait", "exchange", "gather", "broadcast", "scatter inputs", "scatter labels")
#: Phases in which it computes by itself.
ALONE = ("load", "forward", "backward", "update")
#: Ranks of which one computes so many times as long as another are as good as even.
_EVEN = 1.05
_MOST_EPOCHS = 60
_MOST_RANKS = 16
_SECONDS = Axis("seconds", "seconds")


def where_time_went(runs: Sequence[RecordedRun]) -> Section:
    """For each run that was profiled, its phases; how to have them of the others."""
    found = [(run.name, _of(run)) for run in runs if run.has_phases]
    blocks: list[Block] = each("run", found) if found else []
    if len(found) < len(runs):
        whose = (
            "" if not found else " of " + ", ".join(run.name for run in runs if not run.has_phases)
        )
        blocks.append(Text(f"No phases{whose}: `--profile` has them recorded.", "missing"))
    return Section("Where the time went", blocks)


def _of(run: RecordedRun) -> list[Block]:
    phases = run.known("phases")
    ranks = len(phases["elapsed"])
    blocks: list[Block] = [_by_rank(phases)]
    if ranks > 1:
        blocks += _waiting(run, phases)
    blocks.append(_table(phases))
    if by_epoch := _by_epoch(run):
        blocks += each("rank", by_epoch)
    return blocks


def _by_rank(phases: Mapping[str, Any]) -> Bars:
    count = len(phases["elapsed"])
    step = -(-count // 64)
    ranks = range(0, count, step)
    return Bars(
        "By rank",
        _SECONDS,
        [f"rank {rank}" for rank in ranks],
        [Part(name, [of[rank] for rank in ranks], name) for name, of in phases["seconds"].items()],
        lying=True,
        note=f"Every {step}th rank is shown." if step > 1 else "",
    )


def _table(phases: Mapping[str, Any]) -> Table:
    count = len(phases["elapsed"])
    ranks = range(count) if count <= _MOST_RANKS else range(0)
    whole = sum(phases["elapsed"])
    columns = [
        Column("phase"),
        *(Column(f"rank {rank}", "seconds") for rank in ranks),
        Column("share", "share", "of all ranks' time"),
    ]
    rows = [
        [name, *(of[rank] for rank in ranks), sum(of) / whole if whole else None]
        for name, of in phases["seconds"].items()
    ]
    rows.append(["in all", *(phases["elapsed"][rank] for rank in ranks), 1.0])
    return Table("Seconds by phase", columns, rows)


def _waiting(run: RecordedRun, phases: Mapping[str, Any]) -> list[Block]:
    """Who computed how long, and how long each was with others; by epoch, if that is known."""
    seconds, ranks = phases["seconds"], range(len(phases["elapsed"]))

    def spent(rank: int, names: Sequence[str]) -> float:
        return math.fsum(seconds[name][rank] for name in names if name in seconds)

    alone = [spent(rank, ALONE) for rank in ranks]
    together = [spent(rank, TOGETHER) for rank in ranks]
    rows = [
        [
            f"rank {rank}",
            alone[rank],
            spent(rank, ["wait"]),
            together[rank] - spent(rank, ["wait"]),
            together[rank] / phases["elapsed"][rank] if phases["elapsed"][rank] else None,
        ]
        for rank in ranks
    ]
    blocks: list[Block] = [
        Text(_in_words(alone, together)),
        Table(
            "Who waited",
            [
                Column("rank"),
                Column("computing", "seconds", ", ".join(ALONE)),
                Column("waiting", "seconds", "for others, and nothing else"),
                Column("exchange", "seconds", "with others, waiting for them included"),
                Column("with others", "share", "exchange and waiting, of all its time"),
            ],
            rows,
        ),
    ]
    if run.phases:
        blocks.append(_waiting_by_epoch(run))
    return blocks


def _in_words(alone: Sequence[float], together: Sequence[float]) -> str:
    """Who was waited for, if anybody was."""
    ranks = range(len(alone))
    slowest, quickest = (most(ranks, key=alone.__getitem__) for most in (max, min))
    others = [rank for rank in ranks if rank != slowest]
    if alone[slowest] <= _EVEN * alone[quickest]:
        return (
            f"Nobody was waited for in particular: all ranks computed for {alone[quickest]:.3f} to "
            f"{alone[slowest]:.3f} s, and were in exchange and waiting for {min(together):.3f} to "
            f"{max(together):.3f} s."
        )
    return (
        f"The others waited for rank {slowest}, which computed longest: {alone[slowest]:.3f} s. "
        f"They computed for {fmean(alone[rank] for rank in others):.3f} s on average, and were in "
        f"exchange and waiting for {fmean(together[rank] for rank in others):.3f} s; rank "
        f"{slowest} was for {together[slowest]:.3f} s."
    )


def _waiting_by_epoch(run: RecordedRun) -> Chart:
    phases = phases_of(run.phases)
    named = [phases[name] for name in TOGETHER if name in phases]
    lines: dict[int, list[tuple[float, float | None]]] = {}
    for row, (epoch, rank) in enumerate(zip(run.phases["epoch"], run.phases["rank"], strict=True)):
        if epoch is not None and rank is not None and rank < _MOST_RANKS:
            spent = sum(column[row] or 0.0 for column in named)
            lines.setdefault(int(rank), []).append((epoch, spent))
    return Chart(
        "In exchange and waiting, by epoch",
        Axis("epoch", "count"),
        _SECONDS,
        [Series(f"rank {rank}", _some(points), rank) for rank, points in sorted(lines.items())],
        note="The rank with the lowest curve is the one that others waited for.",
    )


def _some(points: list[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    return points[:: -(-len(points) // 500)]


def _by_epoch(run: RecordedRun) -> list[tuple[str, list[Block]]]:
    """Bars for each epoch, for each rank; those of older runs are of rank 0 alone."""
    if not run.phases:
        bars = _epoch_bars(run.history, [*range(len(run.history.get("epoch", ())))], "rank 0")
        return [("rank 0", [bars])] if bars.parts else []
    ranks = sorted({int(rank) for rank in run.phases["rank"] if rank is not None})[:_MOST_RANKS]
    found: list[tuple[str, list[Block]]] = []
    for rank in ranks:
        rows = [index for index, one in enumerate(run.phases["rank"]) if one == rank]
        name = f"rank {rank}"
        found.append((name, [_epoch_bars(run.phases, rows, name)]))
    return found


def _epoch_bars(columns: Mapping[str, list[float | None]], rows: list[int], whose: str) -> Bars:
    step = max(1, -(-len(rows) // _MOST_EPOCHS))
    rows = rows[::step]
    parts = [
        Part(name, values, name)
        for name, column in phases_of(columns).items()
        if any(values := [column[row] for row in rows])
    ]
    return Bars(
        f"By epoch, {whose}",
        _SECONDS,
        [f"{columns['epoch'][row]:g}" for row in rows],
        parts,
        of="epoch",
        note=f"Every {step}th epoch is shown." if step > 1 else "",
    )
