"""Charts and bars drawn by matplotlib, the same bytes for the same numbers."""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from phalanx.observe.report.document import Axis, Bars, Chart
from phalanx.runs.writing import writing
from phalanx.whole_files import whole_file
from phalanx.wording import byte_size

#: Colours that people who see few colours still tell apart (Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b4fbb", "#555f6b")
#: Phases by what a rank does in them: computes (blue), is with others (orange), reads (green).
_PHASES = {
    "forward": "#56b4e9",
    "backward": "#0072b2",
    "update": "#0b3f66",
    "wait": "#f0b429",
    "exchange": "#d55e00",
    "gather": "#b24400",
    "broadcast": "#e88b4a",
    "scatter inputs": "#8f3a0c",
    "scatter labels": "#c98a63",
    "load": "#009e73",
    "prepare": "#7bc8ad",
    "step": "#8d99a8",
    "metrics": "#b5468b",
    "evaluate": "#d79cc0",
    "checkpoint": "#6b4fbb",
    "other": "#c3cad3",
    "ideal": "#7a8594",
}
_STYLES = {"solid": "-", "dashed": "--", "dotted": ":"}
#: Texts stay texts, and nothing in a file depends on when it was made.
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "phalanx",
    "pdf.fonttype": 42,
    "font.family": "DejaVu Sans",
    "font.size": 9,
}
_NO_DATE = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}
_MARKER_EPOCHS = 40


def draw(content: Chart | Bars, output: Path, *, title: str) -> None:
    """Write a figure; the file appears whole or not at all."""
    suffix = output.suffix.lower()
    with matplotlib.rc_context(_SETTINGS), writing(output), whole_file(output) as beside:
        lines = len(content.names) if isinstance(content, Bars) else 0
        figure = Figure(figsize=(6.4, max(3.8, 1.6 + 0.32 * lines)), layout="constrained")
        axes = figure.subplots()
        if isinstance(content, Bars):
            _bars(axes, content)
        else:
            _chart(axes, content)
        axes.set_title(title, loc="left", fontweight="bold")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(beside, format=suffix[1:], dpi=160, metadata=_NO_DATE[suffix])


def _chart(axes: Axes, chart: Chart) -> None:
    for one in chart.series:
        x, y = zip(*one.points, strict=True)
        marked = one.markers or (one.style == "solid" and len(x) <= _MARKER_EPOCHS)
        axes.plot(
            x,
            [float("nan") if value is None else value for value in y],
            label=one.name,
            color=_colour(one.tone),
            linestyle=_STYLES[one.style],
            linewidth=0.8 * one.width,
            marker="o" if marked else None,
            markersize=5 if one.markers else 3,
        )
    _scale(axes, axes.xaxis, chart.x)
    _scale(axes, axes.yaxis, chart.y)
    axes.grid(color="#e4e8ed", linewidth=0.7)
    axes.set_axisbelow(True)
    if len(chart.series) > 1:
        axes.legend(frameon=False, fontsize=8)


def _bars(axes: Axes, bars: Bars) -> None:
    places, before = range(len(bars.names)), [0.0] * len(bars.names)
    for part in bars.parts:
        values = [value or 0.0 for value in part.values]
        axes.barh(
            places, values, left=before, height=0.6, label=part.name, color=_colour(part.tone)
        )
        before = [one + other for one, other in zip(before, values, strict=True)]
    axes.set_yticks(places, bars.names)
    axes.invert_yaxis()
    _scale(axes, axes.xaxis, bars.axis)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _scale(axes: Axes, axis: Any, of: Axis) -> None:
    """An axis with its title and its numbers as a person reads them."""
    axis.set_label_text(of.title or ("seconds" if of.kind == "seconds" else ""))
    if of.log:
        (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
    elif of.kind == "count":
        axis.set_major_locator(MaxNLocator(integer=True))
    if of.kind in ("percent", "share"):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    elif of.kind == "ratio":
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    elif of.kind == "bytes":
        axis.set_major_formatter(FuncFormatter(lambda value, _: byte_size(value)))


def _colour(tone: int | str) -> str:
    if isinstance(tone, int):
        return _COLOURS[tone % len(_COLOURS)]
    return _PHASES.get(tone) or _COLOURS[sum(map(ord, tone)) % len(_COLOURS)]
