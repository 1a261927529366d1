"""What a person is told about a training that a signal has ended: what there is of it."""

import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Protocol

import typer

from phalanx.comm.launch.asking import by
from phalanx.comm.launch.failure import end_ranks_together
from phalanx.comm.launch.job import current_job
from phalanx.comm.launch.signal_reader import SignalReader, end_by, handle, handle_again
from phalanx.comm.launch.way_back import tell_launcher
from phalanx.documents import parse_json, read_text
from phalanx.wording import counted

#: The files of a run folder, in the order of their making.
_FILES = ("config.json", "history.csv", "model.safetensors")
#: Seconds that the first rank has to say something before the others end, and with them the job.
_MOMENT = 2.0
_CHECKPOINT = re.compile(r"step-(\d+)(?:-(\d+))?")


def what_is_left(run: str, *, ranks: int | None = None) -> str:
    """What the folder of a training that did not come to its end has in it, and how to go on.

    Nothing, if there is nothing in it, or all. `ranks` are those that were asked for, if any were.
    """
    folder = Path(run)
    if (folder / "result.json").exists():
        return ""
    there = [name for name in _FILES if (folder / name).exists()]
    kept = [_described(folder / name) for name in there]
    checkpoint = last_checkpoint(folder)
    if checkpoint is not None:
        kept.append(f"a checkpoint {_place(checkpoint)}")
    if not kept:
        return ""
    said = f"{folder} keeps {', '.join(kept)}"
    if "model.safetensors" in there:
        said += "; the last test is missing"
    if checkpoint is None:
        return f"{said}; there is no checkpoint to go on from"
    command = ["phalanx", "train", "--resume", str(folder)]
    command += [] if ranks in (None, 1) else ["--ranks", str(ranks)]
    return f"{said}; go on with: {shlex.join(command)}"


def _described(path: Path) -> str:
    if path.name != "history.csv":
        return path.name
    epochs = max(0, len(path.read_text().splitlines()) - 1)
    return f"{path.name} ({counted(epochs, 'epoch')})"


def last_checkpoint(run: Path) -> Path | None:
    """The newest checkpoint of a run, found without torch."""
    found = []
    with suppress(FileNotFoundError, NotADirectoryError):
        for one in (run / "checkpoints").iterdir():
            if name := _CHECKPOINT.fullmatch(one.name):
                found.append(((int(name[1]), int(name[2] or 1)), one))
    return max(found)[1] if found else None


def _place(checkpoint: Path) -> str:
    """Where in the training a checkpoint is."""
    try:
        position = parse_json(read_text(checkpoint / "checkpoint.json"))["values"]["position"]
        epoch, inside = position["epoch"], position["step_in_epoch"]
        where = f"in epoch {epoch + 1}" if inside else f"after {counted(epoch, 'epoch')}"
        return f"of step {position['step']:,}, {where}"
    except (OSError, ValueError, LookupError, TypeError):
        return checkpoint.name


class HasPath(Protocol):
    """A run, which may move while it is written."""

    @property
    def path(self) -> Path: ...


def say_what_is_left(number: int, run: HasPath, *, ranks: int | None) -> None:
    """A signal ends a training: say which one, and what there is of it."""
    left = what_is_left(str(run.path), ranks=ranks)
    print(f"{by(number)}: {left}" if left else by(number), file=sys.stderr, flush=True)


#: What is done about a training that a signal has ended, once that is said.
Then = Callable[[int], None]


@contextmanager
def ended_in_order(then: Then) -> Iterator[None]:
    """While inside, a training that was stopped in order ends this process; collective, then."""
    from phalanx.train.interruption.stop_on_signal import StoppedError

    try:
        yield
    except StoppedError as stopped:
        end_ranks_together()
        if stopped.exit_code:
            then(stopped.number)
        raise typer.Exit(stopped.exit_code) from None


@contextmanager
def told_when_interrupted(run: HasPath, *, ranks: int | None, then: Then) -> Iterator[None]:
    """While inside, a signal that ends the training does so with a line on what is left.

    Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 end this process, where it does not stop in order. Where
    Phalanx has started the ranks, their launcher has the last word.
    """
    from phalanx.train.interruption.stop_on_signal import StoppedError

    def end(number: int) -> None:
        say_what_is_left(number, run, ranks=ranks)
        then(number)
        end_by(number)

    with _ended_by_signals(end):
        try:
            yield
        except KeyboardInterrupt:
            raise KeyboardInterrupt(what_is_left(str(run.path), ranks=ranks)) from None
        except StoppedError as stopped:
            if not tell_launcher("stopped", str(stopped.number)):  # which says so then
                say_what_is_left(stopped.number, run, ranks=ranks)
                stopped.exit_code = 128 + stopped.number
            raise
        except _Ended as ended:
            sys.stdout.flush()
            end(ended.number)


@contextmanager
def ended_late() -> Iterator[None]:
    """While inside, a signal ends this rank a moment after the first one has had its say."""
    with SignalReader(_end_late) if _is_on_its_own() else nullcontext():
        yield


def _end_late(number: int) -> None:
    time.sleep(_MOMENT)
    end_by(number)


def _is_on_its_own() -> bool:
    """Whether this is a rank that no launcher of ours has started: srun, or a user's mpirun."""
    return current_job() is not None and not tell_launcher("here", "")


@contextmanager
def _ended_by_signals(end: Then) -> Iterator[None]:
    """While inside, what would end this process without a word raises; `end` ends a rank."""
    if current_job() is not None:
        with SignalReader(end) if _is_on_its_own() else nullcontext():
            yield
        return
    before = handle((signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1), _leave)
    try:
        yield
    finally:
        handle_again(before)


class _Ended(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _leave(number: int, _frame: FrameType | None) -> None:
    raise _Ended(number)
