"""How the training went: loss and metrics by epoch, of what was trained on and held out."""

from collections.abc import Sequence
from dataclasses import replace

from phalanx.observe.recorded import Column, RecordedRun
from phalanx.observe.report.document import Axis, Block, Chart, Kind, Section, Series, Text
from phalanx.settings.metrics import SHARES

#: The points of all curves of a page together: more would make it larger than it should be.
_MOST_POINTS = 40_000
_LEAST_POINTS, _MOST_OF_ONE = 30, 1_000
#: Curves that are never further apart than this part of a chart are taken for one by the eye.
_NEAR, _MOST_WIDER = 0.01, 2
_VALIDATION = "validation_"
_NO_METRIC = ("epoch", "seconds", "samples_per_second", "learning_rate")


def learning(runs: Sequence[RecordedRun]) -> Section:
    """A chart for the loss and for each metric, and one for the learning rate if that changes."""
    names = metrics_of(runs)
    blocks: list[Block] = [
        curves(runs, name, title=name.capitalize(), kind="percent" if name in SHARES else "number")
        for name in names
    ]
    rates = {rate for run in runs for rate in run.history.get("learning_rate", ())}
    if len(rates) > len(runs):
        blocks.append(curves(runs, "learning_rate", title="Learning rate"))
    if not blocks:
        blocks.append(Text("No epoch of these runs has been recorded.", "missing"))
    elif not any(_has(run, f"{_VALIDATION}loss") for run in runs):
        blocks.append(
            Text("No validation: `--validation-split 0.1` holds samples out for it.", "missing")
        )
    return Section(
        "Learning",
        blocks,
        "By epoch. Train: while the epoch went on; validation: "
        "after it, on samples that were held out.",
    )


def metrics_of(runs: Sequence[RecordedRun]) -> list[str]:
    """What was measured by epoch, the loss first."""
    names = dict.fromkeys(name for run in runs for name in run.history if _has(run, name))
    return [
        name
        for name in names
        if name not in _NO_METRIC
        and not name.endswith("_seconds")
        and not name.startswith(_VALIDATION)
    ]


def curves(runs: Sequence[RecordedRun], name: str, *, title: str, kind: Kind = "number") -> Chart:
    """A curve a run over its epochs, dashed for the validation."""
    series = []
    for index, run in enumerate(runs):
        for column, style, word in (
            (name, "solid", "train"),
            (f"{_VALIDATION}{name}", "dashed", "validation"),
        ):
            if not _has(run, column):
                continue
            several = any(_has(one, f"{_VALIDATION}{name}") for one in runs)
            label = ", ".join([run.name] * (len(runs) > 1) + [word] * (several or len(runs) == 1))
            points = [*zip(run.history["epoch"], run.history[column], strict=True)]
            series.append((label, points, index, style))
    most = _MOST_POINTS // max(1, len(series) * 8)
    most = min(_MOST_OF_ONE, max(_LEAST_POINTS, most))
    longest = max((len(points) for _, points, *_ in series), default=0)
    step = -(-longest // most) if longest else 1
    return Chart(
        title,
        Axis("epoch", "count"),
        Axis("", kind),
        all_seen(
            [
                Series(label, thinned(points, step), index, style)  # type: ignore[arg-type]
                for label, points, index, style in series
            ]
        ),
        note=f"Every {step}th epoch is shown, and the last." if step > 1 else "",
    )


def all_seen(series: Sequence[Series]) -> list[Series]:
    """The same curves, wider where later ones lie on them: ranks often learn the very same."""
    values = [value for one in series for _, value in one.points if value is not None]
    near = _NEAR * (max(values) - min(values)) if values else 0.0
    return [
        replace(
            one, width=one.width + 2 * min(_MOST_WIDER, _hiding(one, series[place + 1 :], near))
        )
        for place, one in enumerate(series)
    ]


def _hiding(one: Series, later: Sequence[Series], near: float) -> int:
    return sum(
        other.style == one.style
        and len(other.points) == len(one.points)
        and all(
            abs((first or 0) - (second or 0)) <= near
            for (_, first), (_, second) in zip(one.points, other.points, strict=True)
        )
        for other in later
    )


def thinned(
    points: Sequence[tuple[float | None, float | None]], step: int
) -> list[tuple[float, float | None]]:
    """Every so many points, and the last one."""
    kept = [
        point for index, point in enumerate(points) if index % step == 0 or index == len(points) - 1
    ]
    return [(x, y) for x, y in kept if x is not None]


def _has(run: RecordedRun, column: str) -> bool:
    values: Column = run.history.get(column, [])
    return any(value is not None for value in values)
