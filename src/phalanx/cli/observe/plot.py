"""`phalanx plot RUN…`: runs as a figure for a paper."""

from pathlib import Path
from typing import Annotated

import typer

from phalanx.cli.observe.report import Runs
from phalanx.runs.folder import check_writable

_Output = Annotated[
    Path, typer.Option(metavar="FILE.png|svg|pdf", help="Where to write; its ending says as what.")
]
_Figure = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="loss, accuracy, network-loss, network-accuracy, speed-up, phases, time-by-ranks or "
        "time-by-size.",
    ),
]
_Title = Annotated[
    str | None,
    typer.Option(help='Above the figure; "" for none [default: its name].', show_default=False),
]


def plot(
    runs: Runs, output: _Output = Path("plot.png"), figure: _Figure = "loss", title: _Title = None
) -> None:
    """Draw a figure of runs: the curves of `phalanx report`, for a paper.

    * `phalanx plot runs/one runs/two --output loss.pdf` draws their losses by epoch.
    * `phalanx plot runs/* --figure speed-up --output speed-up.svg` draws them against the ideal.
    * `phalanx plot sweep --figure time-by-size --output size.png` takes all runs in a folder.

    Needs matplotlib (`pip install 'phalanx[plots]'`). The same runs give the same bytes.
    """
    check_writable(output)

    from phalanx.observe.plots import write_figure

    write_figure(runs, output, figure=figure, title=title)
    print(output)
