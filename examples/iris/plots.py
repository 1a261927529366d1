"""Curves of loss and accuracy as PNG files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # files, no windows

from matplotlib import pyplot

#: A name for the legend, and a value an epoch.
Curves = Mapping[str, Sequence[float]]


def plot(path: Path, *, title: str, losses: Curves, accuracies: Curves) -> None:
    """Losses to the left, accuracies to the right, over the epochs."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), constrained_layout=True)
    for axes, name, curves in ((left, "loss", losses), (right, "accuracy", accuracies)):
        for label, values in curves.items():
            axes.plot(range(1, len(values) + 1), values, label=label)
        axes.set(xlabel="epoch", ylabel=name)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(f"{title}: {path}")


def plot_times(path: Path, *, title: str, times: Mapping[str, Mapping[int, float]]) -> None:
    """The seconds of a training by its ranks, a curve for each way; one alone is a point."""
    figure, axes = pyplot.subplots(figsize=(6, 4), constrained_layout=True)
    for label, by_ranks in times.items():
        axes.plot(list(by_ranks), list(by_ranks.values()), marker="o", label=label)
    axes.set(xlabel="ranks", ylabel="seconds", title=title)
    axes.set_xticks(sorted({ranks for by_ranks in times.values() for ranks in by_ranks}))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(f"{title}: {path}")
