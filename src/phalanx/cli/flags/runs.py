"""The options that `evaluate` and `predict` share: which run, on what data, on how many ranks."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from phalanx.cli.flags.data import on_data
from phalanx.cli.start import launched, rank_count
from phalanx.comm.launch.job import is_first_rank
from phalanx.data.tables.form import TableForm
from phalanx.runs.folder import read_run_settings, unfinished_note, weights_of
from phalanx.runs.record import read_record
from phalanx.runs.trust import trusted
from phalanx.settings.own_training import without
from phalanx.settings.panels import defaults
from phalanx.settings.rules import check_settings
from phalanx.settings.table import SETTINGS, Settings
from phalanx.wording import flag

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
Device = Annotated[
    str | None,
    typer.Option(
        metavar="auto|cpu|cuda",
        help="Where to compute; auto is a GPU a rank, where all ranks have one [default: auto].",
    ),
]
Threads = Annotated[
    int,
    typer.Option(
        help="Threads a rank. With one, results are the same to the last bit on any number of "
        "ranks; use ranks to go faster."
    ),
]


def device_named(given: str | None) -> str | None:
    """What `--device` says, if it is one."""
    name = "device"
    return None if given is None else SETTINGS[name].convert(given, where=flag(name))


def settings_on_ranks(
    run: Path,
    *,
    data_dir: Path | None,
    ranks: int | None,
    threads: int,
    test_split: float | None = None,
    metrics: tuple[str, ...] | None = None,
    encoding: str | None = None,
    skip_bad: bool | None = None,
    model: str | None = None,
    dataset: str | None = None,
    objective: str | None = None,
    device: str | None = None,
    trust_code: bool = False,
    needs_data: bool = True,
    needs_objective: bool = False,
) -> Settings:
    """The run's settings, in a process that is one of the ranks asked for."""
    # What it was trained from need not be there any more.
    settings = read_run_settings(run).changed(weights=None)
    parts = {"model": model, "dataset": dataset} if needs_data else {"model": model}
    if needs_objective:
        parts["objective"] = objective
    else:
        settings = without(settings, "objective")
    settings = trusted(settings, run, named=parts, trust=trust_code)
    if metrics is not None:
        settings = settings.changed(metrics=metrics)
    if skip_bad:
        settings = settings.changed(skip_bad=True)
    if not needs_data:
        return start_ranks(settings, ranks=ranks, threads=threads, device=device, needs_data=False)
    recorded = read_record(run)
    settings = on_data(
        settings, recorded, data_dir=data_dir, test_split=test_split, encoding=encoding
    )
    return start_ranks(settings, ranks=ranks, threads=threads, device=device, form=recorded.table)


def weights_to_use(run: Path) -> Path:
    """Where the run's weights are, in a process that is one of the ranks; it says so if they are
    not those of its end."""
    note = unfinished_note(run)
    if note is not None and is_first_rank():
        print(note, file=sys.stderr)
    return weights_of(run)


def start_ranks(
    settings: Settings,
    *,
    ranks: int | None,
    threads: int,
    device: str | None = None,
    form: TableForm | None = None,
    needs_data: bool = True,
) -> Settings:
    """The settings for using a model, not training it, in a process that is one of the ranks."""
    where = {} if device is None else {"device": device}
    count = rank_count(ranks, **where)
    # How it was trained in parallel does not bind how it is used.
    here = defaults("Parallelism", "Output") | where
    here |= {"ranks": count, "threads": threads}
    settings = without(settings.with_strategy(None, {}), "callback").changed(**here)
    check_settings(settings, count, form=form, needs_data=needs_data)
    launched(count, bind=settings.bind)
    return settings
