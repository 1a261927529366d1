"""Efficiency over ranks, and over the size of the network, as a picture."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files, no windows

from matplotlib import pyplot

from phalanx.observe.advise.advice import GOOD, Advice
from phalanx.observe.advise.measurements import Measurements


def draw(path: Path, found: Measurements, advice: Advice) -> None:
    """Write the picture, as the end of the file's name says."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    _over_ranks(left, advice)
    _over_size(right, found, advice)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _over_ranks(axes: Any, advice: Advice) -> None:
    rows = advice.rows
    ranks = [row.ranks for row in rows]
    one = rows[0].seconds
    axes.plot(ranks, [row.efficiency for row in rows], "o-", label="predicted")
    shares = [(one / (row.most * row.ranks), one / (row.least * row.ranks)) for row in rows]
    low, high = zip(*shares, strict=True)
    axes.fill_between(ranks, low, high, alpha=0.2, label="as measurements lie apart")
    axes.axvline(advice.use, linestyle=":", color="black", label=f"use {advice.use}")
    _finish(axes, "ranks", f"Efficiency over ranks, {advice.link}")


def _over_size(axes: Any, found: Measurements, advice: Advice) -> None:
    sizes, shares = zip(*advice.efficiency_by_size, strict=True)
    axes.plot(sizes, shares, "o-", label=f"{advice.about} ranks, predicted")
    axes.axvline(found.parameters, linestyle=":", color="black", label="this network")
    _finish(axes, "parameters", f"Efficiency over the network's size, batch {found.batch}")


def _finish(axes: Any, what: str, title: str) -> None:
    axes.axhline(GOOD, linestyle="--", color="grey", linewidth=1)
    axes.set(xscale="log", xlabel=what, ylabel="efficiency", ylim=(0, 1.1), title=title)
    axes.legend()
    axes.grid(alpha=0.3)
