"""Results as Markdown tables."""

from collections.abc import Iterable, Sequence

from benchmarks.bandwidth import limit_seconds
from benchmarks.contenders import BASELINE, REFERENCE, Contender
from benchmarks.exchange_run import Exchanges, Row
from benchmarks.losses import losses
from benchmarks.rounds import Results
from benchmarks.workloads import Workload

#: For what there is no number of.
NONE = "–"

#: Below this a call costs more than the memory it touches, and bandwidth says nothing.
_SMALLEST_LIMIT = 64 << 10

#: Ours, once there, is compared with these.
_OURS = "shared"
_OTHERS = ("gloo", "gloo-bound", "mpi")


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are numbers."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *lines])


def training_table(results: Results, workload: Workload, contenders: Sequence[Contender]) -> str:
    """A workload's rows: rate, ratio to DDP, speed-up over one thread, share of the limit."""
    best, ends = results.best(workload.name), losses(results, workload.name)
    per_core = max(
        (best[c.name] for c in contenders if c.uses_one_core and c.name in best), default=0.0
    )
    header = ["", "samples/s", "÷ DDP", "÷ one thread of ours", "of the limit", "last loss"]
    lines = []
    for contender in contenders:
        rate = best.get(contender.name)
        if rate is None:
            lines.append([contender.name, absence(contender, results, workload), *[NONE] * 4])
            continue
        limit = per_core * contender.ranks * contender.threads
        loss = ends[contender.name]
        lines.append(
            [
                contender.name,
                f"{rate:,.0f}",
                ratio(rate, best.get(REFERENCE)),
                ratio(rate, best.get(BASELINE)),
                f"{rate / limit:.0%}" if limit else NONE,
                NONE if loss is None else f"{loss:.6f}",
            ]
        )
    return table(header, lines)


def ratio_table(
    results: Results, workloads: Sequence[Workload], contenders: Sequence[Contender]
) -> str:
    """How our parallel rows compare with DDP as it comes, DDP at its best, and one thread."""
    ours = [c for c in contenders if c.name.startswith("phalanx") and c.ranks > 1]
    peers = [REFERENCE, "best DDP", BASELINE]
    header = ["", *(f"{c.name} ÷ {peer}" for c in ours for peer in peers)]
    lines = []
    for workload in workloads:
        best = results.best(workload.name)
        every_ddp = [rate for name, rate in best.items() if name.startswith(REFERENCE)]
        best["best DDP"] = max(every_ddp, default=0.0)
        pairs = [(best.get(c.name), best.get(peer)) for c in ours for peer in peers]
        lines.append([workload.name, *(ratio(rate, other) for rate, other in pairs)])
    return table(header, lines)


def exchange_table(results: Exchanges, methods: Sequence[Row], ranks: int) -> str:
    """Seconds by size, beside what the memory's bandwidth would allow."""
    present = [row for row in methods if row.method in results.seconds]
    ours = results.seconds.get(_OURS)
    compared = [row for row in present if row.method in _OTHERS] if ours else []
    header = ["bytes", *(row.name for row in present), "bandwidth limit"]
    header += [f"{row.name} ÷ ours" for row in compared] + ["ours ÷ limit"] * bool(ours)
    lines = []
    for size in sorted(results.add):
        limit = None
        if size >= _SMALLEST_LIMIT:
            limit = limit_seconds(size, ranks=ranks, bandwidth=results.add[size])
        times = [results.seconds[row.method].get(size) for row in present]
        line = [bytes_text(size), *(_time(seconds) for seconds in [*times, limit])]
        if ours:
            line += [ratio(results.seconds[r.method].get(size), ours.get(size)) for r in compared]
            line.append(ratio(ours.get(size), limit))
        lines.append(line)
    return table(header, lines)


def bytes_text(size: int) -> str:
    """16 B, 64 KiB, 4 MiB."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"


def absence(contender: Contender, results: Results, workload: Workload) -> str:
    """Why a contender has no numbers."""
    if contender.missing:
        return "not installed"
    if contender.name in results.failed:
        return "failed"
    assert contender.only is not None
    return f"not {workload.name}"


def ratio(value: float | None, other: float | None) -> str:
    """How many times as much as another, if both are known."""
    return NONE if value is None or not other else f"{value / other:.2f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"
