"""The options that `evaluate` and `predict` share: which run, on what data, on how many ranks."""

from pathlib import Path
from typing import Annotated

import typer

from phalanx.cli.flags.data import on_data
from phalanx.cli.start import launched, rank_count
from phalanx.data.tables.form import TableForm
from phalanx.runs.folder import read_run_settings
from phalanx.runs.record import read_record
from phalanx.settings.panels import defaults
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished training.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the data set's files, or the file. Of other data than the run was "
        "trained on, its test part is used, or all of it if it has none [default: what the run "
        "used, its test part]."
    ),
]
Ranks = Annotated[int | None, typer.Option(help="Ranks to start.")]
Threads = Annotated[
    int,
    typer.Option(
        help="Threads a rank. With one, results are the same to the last bit on any number of "
        "ranks; use ranks to go faster."
    ),
]


def settings_on_ranks(
    run: Path,
    *,
    data_dir: Path | None,
    ranks: int | None,
    threads: int,
    test_split: float | None = None,
    metrics: tuple[str, ...] | None = None,
    needs_data: bool = True,
) -> Settings:
    """The run's settings, in a process that is one of the ranks asked for."""
    # What it was trained from need not be there any more.
    settings = read_run_settings(run).changed(weights=None)
    if metrics is not None:
        settings = settings.changed(metrics=metrics)
    if not needs_data:
        return start_ranks(settings, ranks=ranks, threads=threads, needs_data=False)
    recorded = read_record(run)
    settings = on_data(settings, recorded, data_dir=data_dir, test_split=test_split)
    return start_ranks(settings, ranks=ranks, threads=threads, form=recorded.table)


def start_ranks(
    settings: Settings,
    *,
    ranks: int | None,
    threads: int,
    form: TableForm | None = None,
    needs_data: bool = True,
) -> Settings:
    """The settings for using a model, not training it, in a process that is one of the ranks."""
    count = rank_count(ranks)
    # How it was trained in parallel does not bind how it is used.
    here = defaults("Parallelism", "Output") | {"ranks": count, "threads": threads}
    settings = settings.with_strategy(None, {}).changed(**here)
    check_settings(settings, count, form=form, needs_data=needs_data)
    launched(count, bind=settings.bind)
    return settings
