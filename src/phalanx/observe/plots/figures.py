"""The figures by name, and what each needs of the runs that it shows."""

from collections.abc import Callable, Sequence

from phalanx.errors import UsageError
from phalanx.observe.recorded import RecordedRun
from phalanx.observe.report.document import Axis, Bars, Chart, Kind, Part, Series
from phalanx.observe.report.learning import all_seen, curves
from phalanx.observe.report.speed import speed_up, time_by_ranks, time_by_size
from phalanx.observe.scaling import scaled
from phalanx.wording import unknown

Figure = Chart | Bars


def make_figure(runs: Sequence[RecordedRun], name: str) -> Figure:
    """A figure, by its name; a UsageError says what runs it would take, if these are not enough."""
    if name not in FIGURES:
        raise unknown("figure", name, known=FIGURES)
    make, needs = FIGURES[name]
    figure = make(runs)
    if not (figure.series if isinstance(figure, Chart) else figure.parts):
        raise UsageError(f"--figure {name} {needs}")
    return figure


def phases(runs: Sequence[RecordedRun]) -> Bars:
    """A bar for each rank of each run that was profiled."""
    profiled = [(run, run.known("phases")) for run in runs if run.has_phases]
    named = sorted((phases["seconds"] for _, phases in profiled), key=len, reverse=True)
    names = dict.fromkeys(name for seconds in named for name in seconds)
    ranks = [
        (run, phases["seconds"], rank)
        for run, phases in profiled
        for rank in range(len(phases["elapsed"]))
    ]
    labels = [
        f"{run.name}, rank {rank}" if len(runs) > 1 else f"rank {rank}" for run, _, rank in ranks
    ]
    parts = [
        Part(
            name,
            [seconds[name][rank] if name in seconds else 0.0 for _, seconds, rank in ranks],
            name,
        )
        for name in names
    ]
    return Bars("Where the time went", Axis("seconds", "seconds"), labels, parts, lying=True)


def networks(runs: Sequence[RecordedRun], name: str, *, title: str, kind: Kind = "number") -> Chart:
    """A curve for the network of each rank that trained, on its own samples."""
    series: list[Series] = []
    for run in runs:
        columns = run.networks or run.history
        values = columns.get(name, ())
        ranks = columns.get("rank", [0] * len(values))
        for rank in dict.fromkeys(ranks if values else ()):
            points = [
                (epoch, value)
                for epoch, value, of in zip(columns["epoch"], values, ranks, strict=True)
                if of == rank
            ]
            label = ", ".join([run.name] * (len(runs) > 1) + [f"network {rank}"])
            series.append(Series(label, points, len(series)))  # type: ignore[arg-type]
    return Chart(title, Axis("epoch", "count"), Axis("", kind), all_seen(series))


#: What makes each figure, and what to say if there is nothing to show.
FIGURES: dict[str, tuple[Callable[[Sequence[RecordedRun]], Figure], str]] = {
    "loss": (
        lambda runs: curves(runs, "loss", title="Loss"),
        "needs runs with at least one epoch behind them",
    ),
    "accuracy": (
        lambda runs: curves(runs, "accuracy", title="Accuracy", kind="percent"),
        "needs runs with at least one epoch behind them, whose answers are classes",
    ),
    "network-loss": (
        lambda runs: networks(runs, "loss", title="Loss of each network"),
        "needs runs with at least one epoch behind them",
    ),
    "network-accuracy": (
        lambda runs: networks(runs, "accuracy", title="Accuracy of each network", kind="percent"),
        "needs runs with at least one epoch behind them, whose answers are classes",
    ),
    "speed-up": (
        lambda runs: speed_up(scaled(runs)),
        "needs runs of one training with the same batch, one of them with one rank and one thread "
        "(`phalanx train --threads 1`), others with more",
    ),
    "phases": (phases, "needs runs with `--profile`"),
    "time-by-ranks": (
        lambda runs: time_by_ranks(scaled(runs)),
        "needs runs of one training on different numbers of ranks",
    ),
    "time-by-size": (
        lambda runs: time_by_size(scaled(runs)),
        "needs runs of models of different sizes, trained the same way; runs of older versions do "
        "not say how large theirs are",
    ),
}
