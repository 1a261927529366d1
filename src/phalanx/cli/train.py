"""`phalanx train`: train a model on one rank or on many."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from phalanx.cli.flags.resume import with_settings_or_run
from phalanx.cli.interruption import Then, ended_in_order, what_is_left
from phalanx.cli.requeue import Requeue
from phalanx.cli.start import going_on_with, launched, rank_count
from phalanx.comm.launch import roll_call
from phalanx.comm.launch.fault_tolerance import can_survive
from phalanx.comm.launch.job import current_job, is_first_rank
from phalanx.comm.launch.way_back import tell_launcher
from phalanx.errors import UsageError
from phalanx.runs.resuming import Resumed, check_free
from phalanx.settings.failures import DEFAULT_RESTARTS
from phalanx.settings.intervals import parse_duration
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.settings.trackers import check_tracker
from phalanx.wording import flag

if TYPE_CHECKING:
    from phalanx.cli.first_rank import FirstRank
    from phalanx.cli.output.display import Display
    from phalanx.observe.trackers.of_run import RunTrackers
    from phalanx.state import State
    from phalanx.train.companions.callbacks import Callback
    from phalanx.train.own_code import Callbacks
    from phalanx.train.session import Session
    from phalanx.train.survival import Survival


@with_settings_or_run
def train(settings: Settings, resumed: Resumed | None, requeue: bool) -> None:
    """Train a model on a data set, on one rank or on many.

    * `phalanx train` trains a small network on the embedded digits.
    * `phalanx train --ranks 4` starts four ranks and shares every batch among them.
    * `mpirun -n 4 phalanx train` and `srun --mpi=pmix phalanx train` do the same inside a job.
    * `phalanx train --model net.py:make_model --dataset mnist --data-dir DIR` trains your own.

    * `phalanx train --resume RUN` goes on with what was interrupted, in the middle of an epoch if
      need be; on other ranks, with another strategy or for more epochs, if `--ranks`, `--strategy`
      or `--epochs` say so.

    Everything ends up in a run folder, for `phalanx evaluate` and `phalanx predict`.
    """
    train_as(settings, resumed, requeue=requeue)


def train_as(
    settings: Settings,
    resumed: Resumed | None = None,
    *,
    requeue: bool = False,
    shown: "Callable[[], Display] | None" = None,
    also: "Callbacks | None" = None,
) -> None:
    """The command with settings that are read already.

    What is `shown` may be in another program's manner, and other callbacks may come `also`.
    """
    if settings.test_dir is not None:  # the run may be used from anywhere
        settings = settings.changed(test_dir=settings.test_dir.absolute())
    ranks = rank_count(settings.ranks, settings.device)
    run = settings.output if resumed is None else resumed.run
    then = Requeue(run).after if requeue and run is not None else _nothing
    if resumed is not None:
        settings = settings.changed(output=None)  # it may be there
        if not resumed.is_new:
            settings = settings.changed(weights=None)  # those that it began with may be gone
    check_settings(settings, ranks)
    for tracker in ("tensorboard", "mlflow"):
        if getattr(settings, tracker):
            check_tracker(tracker, asked_by=flag(tracker))
    if resumed is not None:
        _check_end(resumed)
    left = partial(what_is_left, ranks=settings.ranks)
    how = settings.on_failure
    launched(
        ranks,
        bind=settings.bind,
        survive=how == "shrink",
        restarts=(settings.restarts or DEFAULT_RESTARTS) if how == "restart" else 0,
        stall_after=parse_duration(settings.stall_after, flag("stall_after")),
        left=left,
        then=then,
    )
    _check_launcher(how)
    _train_here(settings, resumed, then, shown, also)


def _check_end(resumed: Resumed) -> None:
    """Leave a training alone that has come to its end, or that somebody else goes on with."""
    if resumed.end is not None:
        if is_first_rank():
            print(resumed.end)
        raise typer.Exit
    if current_job() is None and not resumed.is_new:
        check_free(resumed.run)


def _check_launcher(how: str) -> None:
    """Refuse, in a rank, what only a launcher can do that has not started it."""
    ours = tell_launcher("on-failure", how)
    if how == "shrink" and not can_survive():
        raise UsageError(
            "--on-failure shrink: whoever started these ranks ends them all when one is lost. Have "
            "them started by `phalanx train --ranks N` or `mpirun --with-ft ulfm`; `srun` cannot "
            "do it: in Slurm take `--requeue`, which goes on from the last checkpoint"
        )
    if how == "restart" and not ours:
        raise UsageError(
            "--on-failure restart: nobody here can start these ranks again. Have them started by "
            "`phalanx train --ranks N`; in Slurm take `--requeue`"
        )


def _nothing(_number: int) -> None:
    pass


def _usual_display(settings: Settings) -> "Display":
    from phalanx.cli.output.console import make_console
    from phalanx.cli.output.display import TrainingDisplay

    return TrainingDisplay(make_console(quiet=settings.quiet))


def _train_here(
    settings: Settings,
    resumed: Resumed | None,
    then: Then,
    shown: "Callable[[], Display] | None",
    also: "Callbacks | None",
) -> None:
    from phalanx.cli.first_rank import FirstRank
    from phalanx.cli.sessions import Sessions
    from phalanx.comm.recovery.replacements import replace
    from phalanx.observe.trackers.of_run import RunTrackers
    from phalanx.train.interruption.stop_on_signal import StopOnSignal
    from phalanx.train.survival import survive
    from phalanx.train.training import train as train_session

    with (
        ended_in_order(then),
        FirstRank(
            _usual_display(settings) if shown is None else shown(), resumed, then=then
        ) as speaker,
        Sessions(settings, resumed) as sessions,
    ):
        if is_first_rank():
            speaker.show_log()
        stop = StopOnSignal(again=speaker.interrupt)
        start = None if resumed is None else resumed.start
        trackers = RunTrackers(settings)

        def callbacks(session: "Session", run: Path | None) -> "Sequence[Callback]":
            return [*trackers.start(session, run), *(also(session, run) if also else ())]

        def attempt(survival: "Survival | None" = None) -> dict[str, Any]:
            here = sessions.here()
            at: State | Path | None = start
            if survival is not None:
                at = survival.begin(here.comm) or here.comm.broadcast_object(start)
            how: Any = {"survival": survival, "callbacks": callbacks}
            return train_session(here, speaker, start=at, stop=stop, **how)

        def start_others(count: int) -> bool:
            run = [] if speaker.folder is None else going_on_with(str(speaker.folder))
            sessions.forget()
            return replace(count, [*sys.argv[1:], *run])

        if settings.on_failure == "shrink":
            result = survive(attempt, start_others if settings.replace else None)
        else:
            result = attempt()
    _conclude(result, speaker, trackers)


def _conclude(result: dict[str, Any], speaker: "FirstRank", trackers: "RunTrackers") -> None:
    """Tell whoever waits for it that all is done, and what came of it."""
    if is_first_rank():
        trackers.conclude(result)
    if not speaker.conclude(result):  # whoever waits for it will not find it where it should be
        raise typer.Exit(1)
    roll_call.end()
    if is_first_rank():
        tell_launcher("ended", "0")
