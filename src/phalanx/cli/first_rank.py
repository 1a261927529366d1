"""What the first rank of `phalanx train` writes and shows."""

import logging
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Self, final

import torch

from phalanx.cli.interruption import (
    Then,
    ended_late,
    say_what_is_left,
    told_when_interrupted,
)
from phalanx.cli.output.display import Display
from phalanx.comm.launch.way_back import tell_launcher
from phalanx.runs.folder import RunFolder
from phalanx.runs.resuming import Resumed, chosen_of
from phalanx.runs.written import WrittenRun
from phalanx.train.checks.agreement import facts_of_samples
from phalanx.train.interruption.stop_on_signal import StoppedError
from phalanx.train.session import Session, sample_facts
from phalanx.train.speaker import Speaker, Voice


@final
class FirstRank(Speaker, AbstractContextManager["FirstRank"]):
    """A run folder and a display, once this rank is the first one.

    In a `with` block, from when a training begins until it has ended or failed for good.
    """

    def __init__(self, display: Display, resumed: Resumed | None, *, then: Then) -> None:
        """`then` is called when a signal has ended the training, once that is said."""
        super().__init__(None if resumed is None else resumed.run)
        self._display, self._resumed, self._then = display, resumed, then
        #: Whether others have said already what is trained.
        self._is_introduced = False
        self._voice: Voice | None = None
        #: Those that were asked for.
        self._ranks: int | None = None
        self._log: logging.Handler | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.__enter__()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        left = self._open.__exit__(*error)
        if isinstance(error[1], StoppedError) and self._voice is not None:
            assert self._voice.run is not None
            self._voice.run.close()
        return left

    def show_log(self) -> None:
        """Show what the library has to say about its choices as a part of the output, and warnings
        where those of the other ranks go."""
        if self._log is None:
            self._log = _Shown(self._display)
            log = logging.getLogger("phalanx")
            log.addHandler(self._log)
            log.setLevel(logging.INFO)

    def voice(self, session: Session) -> Voice:
        """Collective. This rank's voice; afterwards all ranks know the folder."""
        voice = super().voice(session)
        if not session.is_first:
            self._open.enter_context(ended_late())
        self._is_introduced = self._is_introduced or self._voice is None
        return voice

    def speak(self, session: Session) -> Voice:
        """A new folder, or that of the training to go on with, and the display."""
        if self._voice is not None:
            return self._voice
        self.show_log()
        new, known = session.settings, self.folder
        folder = RunFolder.create(new) if known is None else RunFolder.reopen(known)
        run = WrittenRun(folder, moved=_tell_where)
        _tell_where(run.path)
        self._ranks = session.settings.ranks
        self._open.enter_context(told_when_interrupted(run, ranks=self._ranks, then=self._then))
        display = self._display
        progress = self._open.enter_context(display.progress())
        self._voice = Voice(run, progress, display.show, self._introduce, display.tested)
        return self._voice

    def _introduce(self, session: Session) -> None:
        """Write down what is in force from now on, and say it if nobody has."""
        assert self._voice is not None
        assert self._voice.run is not None
        settings, before = session.settings, self._resumed
        chosen = chosen_of(settings)
        if before is not None:
            settings = settings.changed(weights=before.settings.weights, output=before.run)
            chosen = before.chosen
        self._voice.run.write_config(
            settings,
            ranks=session.comm.size,
            threads=torch.get_num_threads(),
            strategy=session.strategy,
            chosen=list(chosen),
            data=facts_of_samples(session.dataset.train, "training"),
            samples=sample_facts(session),
        )
        if not self._is_introduced:
            self._display.introduce(session)
        self._is_introduced = True

    def conclude(self, result: dict[str, Any]) -> bool:
        """Say what came of it, on the first rank; whether the run is where it should be."""
        if self._voice is None or (run := self._voice.run) is None:
            return True
        self._display.conclude(result, run)
        run.close()
        return not run.is_elsewhere

    def interrupt(self, number: int) -> None:
        """This process is about to end by a signal, whatever it is doing."""
        if self._voice is not None and self._voice.run is not None:
            self._display.console.show_cursor()
            say_what_is_left(number, self._voice.run, ranks=self._ranks)


def _tell_where(path: Path) -> None:
    tell_launcher("run", str(path))


class _Shown(logging.Handler):
    def __init__(self, display: Display) -> None:
        super().__init__()
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            print(record.getMessage(), file=sys.stderr)
        else:
            self._display.say(record.getMessage())
