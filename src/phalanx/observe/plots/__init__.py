"""Runs as figures for a paper: `write_figure`."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from phalanx.errors import UsageError
from phalanx.observe.plots.figures import make_figure
from phalanx.observe.recorded import read_runs

#: The files that figures can be.
SUFFIXES = (".png", ".svg", ".pdf")


def write_figure(
    runs: Sequence[Path], output: Path, *, figure: str, title: str | None = None
) -> None:
    """Draw a figure of runs, by its name, into a file; the same runs give the same bytes."""
    if output.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{output}: name a file that ends in {', '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise UsageError(
            "figures are drawn with matplotlib, which is not installed: pip install "
            "'phalanx[plots]', or look at the runs with `phalanx report`"
        )
    made = make_figure(read_runs(runs), figure)

    from phalanx.observe.plots.drawing import draw

    draw(made, output, title=made.title if title is None else title)
