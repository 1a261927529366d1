"""`phalanx sweep`: all combinations of some settings, one training after the other."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from phalanx.cli.flags.sweep import Asked, with_sweep
from phalanx.cli.output import sweep as output
from phalanx.cli.output.console import wide_console
from phalanx.cli.requeue import Requeue, check_checkpoints, check_in_slurm
from phalanx.comm.launch.asking import by
from phalanx.comm.launch.job import current_job
from phalanx.comm.launch.mpiexec import check_here
from phalanx.errors import PhalanxError, UsageError
from phalanx.observe.report import write_report
from phalanx.observe.sweep.folder import is_sweep, write_asked
from phalanx.observe.sweep.results import sizes_vary
from phalanx.observe.sweep.stopping import Stopping
from phalanx.observe.sweep.sweep import Sweep
from phalanx.runs.folder import check_writable, made
from phalanx.runs.lock import Lock
from phalanx.runs.writing import writing
from phalanx.settings.resuming import PARTS
from phalanx.wording import counted

#: What `timeout` exits with as well.
OUT_OF_TIME = 124


@with_sweep
def sweep(asked: Asked) -> None:
    """Train all combinations of some settings, one after the other.

    * `phalanx sweep --vary ranks=1,2 --vary 'hidden=30,300,[300,300]'`
    * `phalanx sweep --resume FOLDER`, or the same command again, goes on.

    Each is a `phalanx train` with a folder of its own. What is done is kept, what was interrupted
    goes on from its checkpoint, one that fails does not end the others. Exit codes: 0 all done,
    1 some failed, 2 refused, 124 out of time, 128 + n ended by signal n. More: docs/sweeps.md.
    """
    if current_job() is not None:
        raise UsageError("phalanx sweep starts its ranks itself: call it without mpirun or srun")
    _check(asked)
    lock = Lock(made(asked.folder))
    try:
        if not is_sweep(asked.folder):
            write_asked(asked.folder, asked.combinations, skip_refused=asked.skip_refused)
        code = _run(asked)
    finally:
        lock.free()
    raise typer.Exit(code)


def _check(asked: Asked) -> None:
    check_here(max(one.ranks for one in asked.combinations if one.refusal is None))
    if asked.report.parent != asked.folder:
        check_writable(asked.report)
    if asked.requeue:
        check_in_slurm()
        for one in asked.combinations:
            check_checkpoints(one.settings)


def _run(asked: Asked) -> int:
    """Train what is not done, and say what came of it; the exit code."""
    requeue = Requeue(*(asked.folder / one.folder for one in asked.combinations))
    with output.SweepDisplay() as display:
        sweep = Sweep(asked.folder, asked.combinations, listener=display)
        display.say(_beginning(sweep))
        with Stopping(seconds=asked.time_limit, tell=display.say) as stopping:
            sweep.run(stopping)
    is_told = _conclude(asked, sweep)
    if stopping.number is not None:
        typer.echo(f"{by(stopping.number)}: {_left(asked, sweep)}", err=True)
        if asked.requeue:
            requeue.after(stopping.number)
        return 128 + stopping.number
    if stopping.is_out_of_time:
        typer.echo(f"the time is over: {_left(asked, sweep)}", err=True)
        return OUT_OF_TIME
    return 1 if sweep.failed or not is_told else 0


def _beginning(sweep: Sweep) -> str:
    kept = sum(one.kept for one in sweep.outcomes)
    told = f"{sweep.folder}: {counted(len(sweep.outcomes), 'training')}"
    refused = sum(one.row.status == "refused" for one in sweep.outcomes)
    told += f", {refused} of them refused and left out" if refused else ""
    return told + (f", {kept} done before and kept" if kept else "")


def _left(asked: Asked, sweep: Sweep) -> str:
    """What is still to do, and how to go on."""
    left = sweep.left
    if not left:
        return "all trainings are done"
    begun = [one for one in left if (asked.folder / one.folder).exists()]
    names = "".join(f"\n  {one.title}{' (begun)' if one in begun else ''}" for one in left)
    command = ["phalanx", "sweep", "--resume", str(asked.folder)]
    code = [getattr(one.settings, part) for one in asked.combinations for part in PARTS]
    command += ["--trust-code"] if any(":" in (name or "") for name in code) else []
    return (
        f"{counted(len(left), 'training')} of {len(sweep.outcomes)} to do:{names}\n"
        f"go on with: {shlex.join(command)}"
    )


def _conclude(asked: Asked, sweep: Sweep) -> bool:
    """Show the table, and say what did not work and where everything is; whether all is written."""
    console, outcomes = wide_console(), sweep.outcomes
    first = next(one.settings for one in asked.combinations if one.refusal is None)
    title = f"{first.model} on {first.dataset}, seed {first.seed}"
    console.print(output.sweep_table(outcomes, title=title, width=console.width))
    lines = ["", *output.caption(outcomes)]
    reasons = [f"{one.combination.title}: {one.row.reason}" for one in outcomes if one.row.reason]
    lines += ["", *reasons] if reasons else []
    done = [asked.folder / one.combination.folder for one in outcomes if one.row.status == "done"]
    lines += ["", f"runs and tables: {asked.folder}"]
    failure = _report(done, asked.report) if done else None
    if done:
        lines.append(f"report: {asked.report}" if failure is None else f"no report: {failure}")
        lines.append(f"plot: {_plot(asked)}")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return failure is None


def _plot(asked: Asked) -> str:
    """The command for the figure that suits what varies."""
    names = asked.combinations[0].values
    figure = "time-by-ranks" if "ranks" in names else "loss"
    if sizes_vary(names):
        figure = "time-by-size"
    output = asked.folder / f"{figure}.png"
    words = ["phalanx", "plot", str(asked.folder), "--figure", figure, "--output", str(output)]
    return shlex.join(words)


def _report(runs: Sequence[Path], output: Path) -> str | None:
    """Write the report; why it is not there, if so."""
    try:
        with writing(output):
            write_report(runs, output)
    except PhalanxError as error:
        return str(error)
    return None
