"""Runs as a page to look at: `write_report`."""

from collections.abc import Sequence
from pathlib import Path

from phalanx.observe.recorded import read_runs
from phalanx.observe.report.html import write_page
from phalanx.observe.report.runs import document_of


def write_report(
    runs: Sequence[Path], output: Path, *, title: str | None = None, notes: Sequence[str] = ()
) -> None:
    """Write one self-contained page of HTML about runs, finished or not.

    A folder that has runs in it stands for all of them. The `notes` are said at its beginning.
    """
    write_page(document_of(read_runs(runs), title=title, notes=notes), output)
