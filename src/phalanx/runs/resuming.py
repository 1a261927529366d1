"""A run that is gone on with: its settings, what is changed about them, and whether it can be.

All that can be refused is refused here, before any rank starts, and without torch.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from phalanx.errors import RunError, UsageError
from phalanx.runs.folder import (
    CHECKPOINTS,
    has_checkpoint,
    has_result,
    read_config,
    read_result,
    read_run_settings,
)
from phalanx.runs.lock import Lock
from phalanx.runs.trust import untrusted
from phalanx.settings.resuming import PARTS, check_changes, chosen_anew, merged
from phalanx.settings.rules import check_output
from phalanx.settings.table import Settings
from phalanx.wording import counted

#: What is chosen for a number of ranks where a user says nothing.
CHOSEN = ("strategy", "threads")


@final
@dataclass(frozen=True)
class Resumed:
    """A training that has begun before."""

    run: Path
    #: What it was begun with, but for what is changed now.
    settings: Settings
    #: Those of `CHOSEN` that nobody asked for.
    chosen: tuple[str, ...] = ()
    #: What config.json says about the samples.
    data: Mapping[str, Any] | None = None
    #: Whether there is nothing to go on from yet, and that is as it may be.
    is_new: bool = False

    @property
    def start(self) -> Path | None:
        """The checkpoints to go on from; None if it has to begin."""
        return None if self.is_new else self.run / CHECKPOINTS

    @property
    def end(self) -> str | None:
        """That it has come to its end already, and how to train on; None if it has not."""
        if not has_result(self.run):
            return None
        result = read_result(self.run)
        epochs, stopped = result.get("epochs"), result.get("stopped")
        if epochs is None:
            return None
        done = f"{self.run}: this training has come to its end after {counted(epochs, 'epoch')}"
        if epochs >= self.settings.epochs:
            return f"{done}: train on with --epochs {epochs + 1} or more"
        before = result.get("stopping")
        if stopped is not None and before == stopping_of(self.settings):
            return f"{done} ({stopped}): train on with another --patience or --stop-at"
        return None


def stopping_of(settings: Settings) -> list[Any]:
    """What decides when a training stops before its last epoch."""
    return [settings.patience, settings.stop_at]


def resume(
    run: Path, given: Settings, names: Collection[str], *, ranks: int | None, trust: bool
) -> Resumed:
    """A run with the settings that were `given` by these names, on so many ranks, or its own.

    Raises for what cannot go on.
    """
    saved, config = read_run_settings(run), read_config(run)
    before, data = config.get("chosen"), config.get("data")
    chosen = tuple(
        name for name in CHOSEN if isinstance(before, list) and name in before and name not in names
    )
    now = merged(saved, given, [name for name in names if name != "output"])
    if "trace" not in names:  # of one turn; nor has a folder to say what else is written where
        now = now.changed(trace=None)
    count = (now.ranks or 1) if ranks is None else ranks
    if count != saved.ranks:
        now = chosen_anew(now, chosen)
    _check_trust(run, saved, now, names, trust=trust)
    _check_output(run, given)
    check_changes(saved, now, ranks=count, run=str(run))
    data = data if isinstance(data, dict) else None
    again = Resumed(run, now.changed(ranks=count), chosen, data)
    if again.end is None:
        _check_checkpoints(run)
    return again


def begin_or_resume(
    run: Path, given: Settings, names: Collection[str], *, ranks: int | None, trust: bool
) -> Resumed:
    """The same, but if `given` names the run's folder as output, it may also have to begin."""
    if given.output is None or not _is_same(given.output, run) or has_checkpoint(run):
        return resume(run, given, names, ranks=ranks, trust=trust)
    if run.exists() and not (run / "config.json").exists():
        check_output(run)  # it is not that of a run: nothing in it may be ours
    return Resumed(run, given, chosen_of(given), is_new=True)


def chosen_of(settings: Settings) -> tuple[str, ...]:
    """What is left to be chosen for the ranks."""
    return tuple(name for name in CHOSEN if getattr(settings, name) is None)


def check_free(run: Path) -> None:
    """Refuse a run that somebody trains."""
    Lock(run).free()


def _check_trust(
    run: Path, saved: Settings, now: Settings, names: Collection[str], *, trust: bool
) -> None:
    """Refuse code that only the folder names: whoever made it would have anything run."""
    for part in PARTS:
        name = getattr(now, part)
        if name is not None and ":" in name and part not in names and not trust:
            raise UsageError(untrusted(run, part, getattr(saved, part)))


def _is_same(output: Path, run: Path) -> bool:
    return output.absolute() == run.absolute()


def _check_output(run: Path, given: Settings) -> None:
    if given.output is not None and not _is_same(given.output, run):
        raise UsageError(
            f"--output {given.output}: a training is gone on with where it is, in {run}: leave it "
            "out"
        )


def _check_checkpoints(run: Path) -> None:
    if not has_checkpoint(run):
        raise RunError(
            f"{run}: has no checkpoint to go on from: start again with its settings, "
            f"`phalanx train --config {run / 'config.json'}`"
        )
