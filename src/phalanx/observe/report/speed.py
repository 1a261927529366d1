"""How fast the runs were: samples a second, what more cores bring, what larger models take."""

from collections.abc import Callable, Sequence

from phalanx.observe.report.document import (
    Axis,
    Bars,
    Block,
    Chart,
    Part,
    Section,
    Series,
    Text,
    number,
)
from phalanx.observe.report.learning import curves
from phalanx.observe.scaling import Scaled, what_differs
from phalanx.settings.panels import names_in
from phalanx.wording import counted

IDEAL = "ideal"
_NO_SPEED_UP = (
    "No speed-up: it needs runs of one training with the same batch, of which one has one rank and "
    "one thread, and others more."
)
Value = Callable[[Scaled], float | None]


def speed(runs: Sequence[Scaled]) -> Section:
    """Charts of the throughput, and of what more cores bring."""
    all_runs = [one.run for one in runs]
    blocks: list[Block] = []
    rates = [number(run.known("samples_per_second")) for run in all_runs]
    if len(runs) > 1 and any(rates):
        names = [run.name for run in all_runs]
        parts = [Part("samples/s", rates)]
        blocks.append(Bars("Throughput", Axis("samples/s", "rate"), names, parts, lying=True))
    charts = [speed_up(runs), efficiency(runs), time_by_ranks(runs), time_by_size(runs)]
    blocks += [chart for chart in charts if chart.series]
    if not charts[0].series:
        blocks.append(Text(_NO_SPEED_UP, "missing"))
    if any("samples_per_second" in run.history for run in all_runs):
        title = "Throughput by epoch"
        blocks.append(curves(all_runs, "samples_per_second", title=title, kind="rate"))
    return Section("Speed", blocks)


def speed_up(runs: Sequence[Scaled]) -> Chart:
    """Against the cores in use, beside the ideal; without a curve if nothing is known of it."""
    return _against_cores(
        "Speed-up", Axis("", "ratio"), runs, lambda one: one.speed_up, rising=True
    )


def efficiency(runs: Sequence[Scaled]) -> Chart:
    """The same as a part of what the cores could do."""
    return _against_cores("Efficiency", Axis("", "share"), runs, lambda one: one.efficiency)


def time_by_ranks(runs: Sequence[Scaled]) -> Chart:
    """The time of a training against its ranks, a curve for each strategy and training."""
    timed = [one for one in runs if number(one.run.known("seconds")) is not None and one.run.ranks]
    lines = _lines(timed, lambda one: one.run.ranks == 1)
    series = [
        _series(name, line, tone, lambda one: one.run.ranks, lambda one: one.run.known("seconds"))
        for tone, (name, line) in enumerate(lines.items())
    ]
    several = [one for one in series if len({x for x, _ in one.points}) > 1]
    return Chart("Time by ranks", Axis("ranks", "count"), Axis("", "seconds"), several)


def time_by_size(runs: Sequence[Scaled]) -> Chart:
    """The time of a training against its model's parameters, a curve for each way to train it."""
    model = names_in("Model")
    sized = [one for one in runs if one.run.known("parameters") and one.run.known("seconds")]
    apart = what_differs([one.run for one in sized], leave_out=model)
    lines: dict[str, list[Scaled]] = {}
    for one, name in zip(sized, apart, strict=True):
        way = f"{one.run.strategy}, {counted(one.run.ranks or 1, 'rank')}"
        lines.setdefault(f"{way}, {name}" if name else way, []).append(one)
    series = [
        _series(
            *(name, line, tone),
            lambda one: one.run.known("parameters"),
            lambda one: one.run.known("seconds"),
        )
        for tone, (name, line) in enumerate(lines.items())
    ]
    several = [one for one in series if len({x for x, _ in one.points}) > 1]
    x, y = Axis("parameters", "count", log=True), Axis("", "seconds", log=True)
    return Chart("Time by size of the model", x, y, several)


def _against_cores(
    title: str, y: Axis, runs: Sequence[Scaled], value: Value, *, rising: bool = False
) -> Chart:
    known = [one for one in runs if one.speed_up is not None]
    x = Axis("cores in use: ranks × threads", "count")
    most = max((one.run.cores or 1 for one in known), default=1)
    if most == 1:
        return Chart(title, x, y, [])
    lines = _lines(known, lambda one: one.run.cores == 1)
    ideal = Series(IDEAL, [(1, 1), (most, most if rising else 1)], IDEAL, "dotted")
    found = [
        _series(name, line, tone, lambda one: one.run.cores, value)
        for tone, (name, line) in enumerate(lines.items())
    ]
    return Chart(title, x, y, [ideal, *found])


def _lines(runs: Sequence[Scaled], is_alone: Callable[[Scaled], bool]) -> dict[str, list[Scaled]]:
    """The runs of each training and strategy; what was done alone begins all of its training's."""
    apart = {
        one.run.name: name
        for one, name in zip(runs, what_differs([one.run for one in runs]), strict=True)
    }
    lines: dict[str, list[Scaled]] = {}
    for one in runs:
        if is_alone(one):
            continue
        name = ", ".join(part for part in (one.run.strategy, apart[one.run.name]) if part)
        alone = [other for other in runs if is_alone(other) and other.group == one.group]
        alone.sort(key=lambda other: other.run.strategy != "single")
        lines.setdefault(name, alone[:1]).append(one)
    return lines


def _series(name: str, line: Sequence[Scaled], tone: int, x: Value, y: Value) -> Series:
    points = sorted({(at, value) for one in line if (at := x(one)) and (value := y(one))})
    return Series(name, points, tone, markers=True)
