"""`phalanx compare`: the same training by every strategy, or finished runs, side by side."""

import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.console import Console

from phalanx.cli.flags.compare import Asked, with_comparison
from phalanx.cli.output import comparison as tables
from phalanx.cli.output.console import wide_console
from phalanx.comm.launch.job import current_job
from phalanx.comm.launch.process import available_cores
from phalanx.errors import UsageError
from phalanx.observe.comparison import Comparison
from phalanx.observe.fairness import differences
from phalanx.observe.plan import Planned, plan
from phalanx.observe.rows import Row, read_finished
from phalanx.runs.folder import check_writable
from phalanx.runs.writing import writing


@with_comparison
def compare(asked: Asked) -> None:
    """Train the same model with every strategy, and show what each costs and brings.

    * `phalanx compare --strategies all --ranks 2 --dataset digits`
    * `phalanx compare --strategies single,allreduce,local --ranks 4 --every 16 --json table.json`
    * `phalanx compare runs/digits-mlp-1 runs/digits-mlp-2` compares finished runs as they are.

    Each training is a run of `phalanx train`, in processes of its own, with the same flags; those
    of a strategy go to the strategies that have them.
    """
    for path in (asked.json, asked.csv, asked.report):
        check_writable(path)
    if asked.runs:
        _compare_finished(asked)
    else:
        _compare_strategies(asked)


def _compare_finished(asked: Asked) -> None:
    runs = [read_finished(folder) for folder in asked.runs]
    rows = [run.row for run in runs]
    notes = [f"not a fair comparison: {line}" for line in differences(runs)]
    console = wide_console()
    console.print(
        tables.comparison_table(rows, title="Finished runs", width=console.width, numbered=True)
    )
    _say(console, "", *tables.caption(rows), "")
    console.print(tables.machine_table(runs, width=console.width))
    _say(console, "", tables.common_versions(runs), *notes)
    machines = [{"host": run.host, "versions": run.versions} for run in runs]
    _write(asked, rows, {"notes": notes, "machines": machines})
    _report(asked, asked.runs, notes=notes)


def _compare_strategies(asked: Asked) -> None:
    if current_job() is not None:
        raise UsageError("phalanx compare starts its ranks itself: call it without mpirun or srun")
    planned, notes = _plan(asked)
    progress = Console(stderr=True, markup=False, emoji=False)
    comparison = Comparison(planned, repeats=asked.repeats, tell=lambda text: _say(progress, text))
    try:
        with _ended_by_signals(), _folder(asked.settings.output) as folder:
            try:
                comparison.run(folder)
            finally:  # while the runs are there
                _report(asked, comparison.runs(folder), notes=[*notes, *_reasons(comparison.rows)])
    finally:  # what there is, also after a Ctrl-C
        _conclude(asked, comparison, _about(planned[0]), notes)
    if comparison.failed:
        raise typer.Exit(1)


def _plan(asked: Asked) -> tuple[list[Planned], list[str]]:
    """What is trained, and a note about each device that is not here."""
    from phalanx.observe.devices import missing_device

    missing = {device: missing_device(device) for device in asked.devices}
    notes = [f"{device}: {why}" for device, why in missing.items() if why is not None]
    devices = [device for device, why in missing.items() if why is None]
    if not devices:
        raise UsageError(f"--devices {','.join(asked.devices)}: {'; '.join(notes)}")
    ranks = asked.settings.ranks
    ranks = max(2, available_cores()) if ranks is None else ranks
    return plan(asked.settings, asked.strategies, ranks=ranks, devices=devices), notes


@contextmanager
def _folder(asked: Path | None) -> Iterator[Path]:
    """Where the runs go: a folder to keep, or one that is gone afterwards."""
    if asked is not None:
        yield asked
        return
    with tempfile.TemporaryDirectory(prefix="phalanx-compare-") as name:
        yield Path(name)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """While inside, SIGTERM and SIGHUP end this process as an exit does: it cleans up."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _about(planned: Planned) -> dict[str, Any]:
    """What is the same in all trainings."""
    names = ("dataset", "model", "epochs", "batch_size", "optimizer", "dtype", "seed")
    return {name: getattr(planned.settings, name) for name in names}


def _conclude(
    asked: Asked, comparison: Comparison, about: dict[str, Any], notes: Sequence[str]
) -> None:
    console, rows, epochs = wide_console(), comparison.rows, about["epochs"]
    title = (
        f"{about['model']} on {about['dataset']}: {epochs} epoch{'s' if epochs != 1 else ''}, "
        f"{about['batch_size']} samples a step, seed {about['seed']}"
    )
    console.print(tables.comparison_table(rows, title=title, width=console.width))
    _say(console, "", *tables.caption(rows, repeats=asked.repeats))
    reasons = _reasons(rows)
    if reasons or notes:
        _say(console, "", *reasons, *notes)
    if asked.settings.output is not None:
        _say(console, f"runs: {asked.settings.output}")
    _write(asked, rows, {"settings": about, "repeats": asked.repeats, "notes": list(notes)})


def _reasons(rows: Sequence[Row]) -> list[str]:
    """Why some came to nothing."""
    return [f"{row.run}: {row.reason}" for row in rows if row.reason]


def _report(asked: Asked, runs: Sequence[Path], *, notes: Sequence[str]) -> None:
    """Write the page, if it is wanted and there is anything to tell."""
    if asked.report is not None and runs:
        from phalanx.observe.report import write_report

        write_report(runs, asked.report, notes=notes)


def _write(asked: Asked, rows: Sequence[Row], about: dict[str, Any]) -> None:
    if asked.json is not None:
        with writing(asked.json):
            tables.write_json(asked.json, rows, about=about)
    if asked.csv is not None:
        with writing(asked.csv):
            tables.write_csv(asked.csv, rows)


def _say(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=not console.is_terminal)
