"""A sweep under way: one training after the other, each row kept as soon as it is known.

Each is `phalanx train` in processes of its own, which begins or goes on in a folder of its own: so
whatever ends a sweep, it can be gone on with.
"""

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol, final

from phalanx.comm.launch.child import start_child
from phalanx.errors import RunError
from phalanx.observe.plan import command
from phalanx.observe.rows import row_of_result
from phalanx.observe.sweep.combinations import Combination
from phalanx.observe.sweep.estimate import Timed, UnderWay, in_words, seconds_left
from phalanx.observe.sweep.folder import wall_seconds, write_table
from phalanx.observe.sweep.results import Outcome, without_result
from phalanx.observe.sweep.stopping import Stopping
from phalanx.observe.training import REFUSED, cause_of
from phalanx.runs.folder import has_result, read_result
from phalanx.runs.resuming import check_free
from phalanx.runs.writing import writing

#: Seconds that a training has to end which a sweep has left behind that was killed.
_PATIENCE = 60.0


class Listener(Protocol):
    """Who shows what goes on."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def show(self, text: str) -> None:
        """What is so just now, and will be replaced."""


@final
class Sweep:
    """Trainings in a folder; `outcomes` can be read at any time, also after an interruption."""

    def __init__(
        self, folder: Path, combinations: Sequence[Combination], *, listener: Listener
    ) -> None:
        self.folder = folder
        self._combinations = combinations
        self._listener = listener
        self._spent = wall_seconds(folder)
        self._outcomes: dict[int, Outcome] = {}
        for one in combinations:
            if one.refusal is not None:
                self._note(without_result(one, "refused", short="refused", reason=one.refusal))
            elif has_result(self._run(one)):
                self._note(self._finished(one, kept=True))

    @property
    def outcomes(self) -> list[Outcome]:
        """One a training, in their order."""
        return [
            self._outcomes.get(one.number)
            or without_result(
                one, "interrupted", short="to do", wall_seconds=self._spent.get(one.folder, 0.0)
            )
            for one in self._combinations
        ]

    @property
    def left(self) -> list[Combination]:
        """Those that are not done, in their order: some have begun, others have failed."""
        return [
            one.combination
            for one in self.outcomes
            if one.row.status in ("interrupted", "failed") and one.combination.refusal is None
        ]

    @property
    def failed(self) -> bool:
        """Whether a training has come to nothing that was not refused beforehand."""
        return any(one.row.status == "failed" for one in self._outcomes.values())

    def run(self, stopping: Stopping) -> None:
        """Train what is not done, until all is or something ends it."""
        write_table(self.folder, self.outcomes)
        for one in self._combinations:
            if one.number in self._outcomes:
                continue
            if stopping.is_asked_for:
                return
            self._train(one, stopping)
            write_table(self.folder, self.outcomes)

    def _train(self, one: Combination, stopping: Stopping) -> None:
        place = f"{self._number(one)} {one.title}"
        run, started = self._run(one), time.monotonic()
        goes_on = run.exists()
        self._listener.say(f"{place}: {'goes on' if goes_on else 'training'} …")
        if goes_on:
            self._wait_until_free(run, stopping)
        if stopping.is_asked_for:
            return
        with _opened(_log_of(run)) as log:
            folder = [f"--output={run}", f"--resume={run}"]  # it begins, or goes on
            argv = [*command(one.flags()), *folder]
            process = start_child(argv, stdout=log.fileno(), stderr=subprocess.STDOUT)
            code = stopping.wait(process, look=self._looks(one, started))
        self._spent[one.folder] = self._spent.get(one.folder, 0.0) + time.monotonic() - started
        if code != 0 and stopping.is_asked_for:
            return
        outcome = self._finished(one) if code == 0 else self._failed(one, code)
        self._note(outcome)
        self._listener.say(f"{place}: {_came_to(outcome)}{self._left_in_words()}")

    def _finished(self, one: Combination, *, kept: bool = False) -> Outcome:
        try:
            row = row_of_result(one.folder, read_result(self._run(one)))
        except RunError as error:
            return without_result(one, "failed", short="failed", reason=str(error))
        return Outcome(one, row, self._spent.get(one.folder) or row.seconds or 0.0, kept)

    def _failed(self, one: Combination, code: int) -> Outcome:
        log = _log_of(self._run(one))
        reason = (
            f"{cause_of(log.read_text(errors='replace'), code)}\n"
            f"  all that it said: {log}\n"
            f"  to see it alone: {shlex.join(['phalanx', 'train', *one.flags()])}"
        )
        short = "refused" if code == REFUSED else "failed"
        spent = self._spent[one.folder]
        return without_result(one, "failed", short=short, reason=reason, wall_seconds=spent)

    def _looks(self, one: Combination, started: float) -> Callable[[], None]:
        """How far a training is, looked at once a second."""
        run, epochs = self._run(one), one.settings.epochs
        before = _epochs_in(run)
        following = 0.0

        def look() -> None:
            nonlocal following
            now = time.monotonic()
            if now < following:
                return
            following = now + 1
            done = _epochs_in(run)
            under_way = UnderWay(one.values, epochs, done, before, now - started)
            told = f"{done} of {epochs} epochs{self._left_in_words(under_way)}"
            self._listener.show(f"{self._number(one)} {told}: {one.title}")

        return look

    def _left_in_words(self, under_way: UnderWay | None = None) -> str:
        done = [
            Timed(one.combination.values, one.wall_seconds)
            for one in self._outcomes.values()
            if one.row.status == "done"
        ]
        here = None if under_way is None else under_way.values
        to_come: list[Mapping[str, Any]] = [
            one.values
            for one in self._combinations
            if one.number not in self._outcomes and one.values is not here
        ]
        if not to_come and under_way is None:
            return ""
        left = in_words(seconds_left(done, to_come, under_way))
        return f"; {left} left" if left else ""

    def _wait_until_free(self, run: Path, stopping: Stopping) -> None:
        """A sweep that was killed leaves its training some time to end in order."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and not stopping.is_asked_for:
            try:
                check_free(run)
            except RunError:
                time.sleep(0.2)
            else:
                return

    def _number(self, one: Combination) -> str:
        return f"[{one.number}/{len(self._combinations)}]"

    def _note(self, outcome: Outcome) -> None:
        self._outcomes[outcome.combination.number] = outcome

    def _run(self, one: Combination) -> Path:
        return self.folder / one.folder


def _log_of(run: Path) -> Path:
    return run.with_name(run.name + ".log")


def _opened(log: Path) -> BinaryIO:
    with writing(log):
        return log.open("ab")


def _epochs_in(run: Path) -> int:
    """The epochs that a training has done, by the lines that it has written of them."""
    try:
        return max(0, (run / "history.csv").read_bytes().count(b"\n") - 1)
    except OSError:  # there is none yet
        return 0


def _came_to(outcome: Outcome) -> str:
    row = outcome.row
    if row.status == "done":
        return f"{row.seconds or 0:.2f} s, {row.samples_per_second or 0:,.0f} samples/s"
    return f"{row.short}: {row.reason.partition(chr(10))[0]}"
