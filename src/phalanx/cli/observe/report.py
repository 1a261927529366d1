"""`phalanx report RUN…`: runs as a page to look at."""

from pathlib import Path
from typing import Annotated

import typer

from phalanx.errors import UsageError
from phalanx.runs.folder import check_writable

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...",
        help="Folders of runs, finished or not. One that has runs in it stands for all of them.",
        show_default=False,
    ),
]
_Output = Annotated[Path, typer.Option(metavar="FILE.html", help="Where to write the page.")]
_Title = Annotated[
    str | None,
    typer.Option(help="The page's title [default: the model and the data].", show_default=False),
]


def report(runs: Runs, output: _Output = Path("report.html"), title: _Title = None) -> None:
    """Write a page about runs, to look at in a browser: one file that needs nothing else.

    * `phalanx report runs/digits-simplecnn-1`
    * `phalanx report runs/one-rank runs/two-ranks --output ranks.html` puts them side by side.
    * `phalanx report sweep --output sweep.html` takes all runs in a folder.

    It shows the result, curves of the training, what was confused with what, speed-up and
    efficiency (if the same training on one core is among the runs), memory, settings and the
    environment; and where the time went, by phase, rank and epoch, of runs with `--profile`.
    """
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--output {output}: a page is written: name it *.html")
    check_writable(output)

    from phalanx.observe.report import write_report

    write_report(runs, output, title=title)
    print(f"{output}: {output.stat().st_size / 1e6:.2f} MB")
