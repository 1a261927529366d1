"""What a person sees while a training runs: a bar on a terminal, lines now and then elsewhere.

Ranks other than 0 get `Silent`.
"""

import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, final

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from phalanx.cli.output.console import make_console
from phalanx.comm.launch.job import is_first_rank
from phalanx.train.metrics import Meter, Metrics
from phalanx.train.progress import Progress, Silent

#: Columns from which on a bar has its full length, and the time beside it.
_ROOMY = 110


class Lines(Progress):
    """A line an epoch, and one every few seconds while an epoch lasts.

    Where epochs are short, some of them go without: not the first ones, nor the last, nor one that
    ends so many seconds after the last line (`apart`).
    """

    def __init__(
        self, console: Console, *, interval: float = 10.0, first: int = 3, apart: float = 1.0
    ) -> None:
        self._console = console
        self._interval = interval
        self._apart = apart
        #: How many lines are shown whatever the time.
        self._free = first
        self._said = 0.0
        #: The line of the last epoch that is over, if it was not shown.
        self._left_out: str | None = None
        self._is_last = False
        self._label = ""
        self._steps = self._step = 0
        self._started = self._next = 0.0

    def start(self, epoch: int, epochs: int, *, steps: int) -> None:
        self._label = f"epoch {epoch}/{epochs}"
        self._is_last = epoch == epochs
        self._steps, self._step = steps, 0
        self._started = time.perf_counter()
        self._next = self._started + self._interval

    def step(self, samples: int, meter: Meter) -> None:
        self._step += 1
        now = time.perf_counter()
        if now < self._next:
            return
        self._next = now + self._interval
        rate = samples / (now - self._started)
        self._say(f"{self._label}  step {self._step}/{self._steps}  {_line(meter.mine, rate)}")

    def finish(self, train: Metrics, validation: Metrics | None, samples_per_second: float) -> None:
        line = f"{self._label}  {_line(train, samples_per_second)}{_validated(validation)}"
        if self.is_due():
            self._free -= 1
            self._say(line)
        else:
            self._left_out = line

    def is_due(self) -> bool:
        """Whether the line of an epoch that ends now is shown."""
        waited = time.perf_counter() - self._said
        return self._free > 0 or self._is_last or waited >= self._apart

    def end(self) -> None:
        if self._left_out is not None:
            self._say(self._left_out)

    def _say(self, text: str) -> None:
        self._left_out = None
        self._said = time.perf_counter()
        self._console.print(text, highlight=False, soft_wrap=True)


class Bar(Progress):
    """A bar while epochs last, and now and then the exact values of one that is done as a line."""

    _REFRESH = 0.1
    _APART = 5.0

    def __init__(self, console: Console) -> None:
        roomy = console.width >= _ROOMY
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24 if roomy else 8),
            TextColumn("{task.completed}/{task.total}"),
            *((TimeElapsedColumn(),) if roomy else ()),
            TextColumn("{task.fields[values]}"),
        )
        # No refresh thread: it would wake up inside the compute of a rank that owns its core.
        self._bar = RichProgress(*columns, console=console, auto_refresh=False, transient=True)
        self._lines = Lines(console, apart=self._APART)
        self._task = self._bar.add_task("", total=0, values="")
        self._step = 0
        self._started = self._next = 0.0

    def start(self, epoch: int, epochs: int, *, steps: int) -> None:
        self._lines.start(epoch, epochs, steps=steps)
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(f"epoch {epoch}/{epochs}", total=steps, values="")
        self._bar.start()
        self._step = 0
        self._started = time.perf_counter()

    def step(self, samples: int, meter: Meter) -> None:
        self._step += 1
        now = time.perf_counter()
        if now < self._next:
            return
        self._next = now + self._REFRESH
        shown = replace(meter.mine, more={})  # all of them are in the line that follows
        values = _line(shown, samples / max(now - self._started, 1e-9))
        self._bar.update(self._task, completed=self._step, values=values)
        self._bar.refresh()

    def finish(self, train: Metrics, validation: Metrics | None, samples_per_second: float) -> None:
        if self._lines.is_due():
            self._bar.stop()
        self._lines.finish(train, validation, samples_per_second)

    def end(self) -> None:
        self._bar.stop()
        self._lines.end()

    def close(self) -> None:
        """However the training ended: the cursor is shown again."""
        self._bar.stop()


@final
class ProgressBar(Progress):
    """`trainer.fit(…, progress=phalanx.ProgressBar())` shows how far it is, on the first rank.

    A bar on a terminal, with a line for an epoch now and then; lines alone elsewhere.
    """

    def __init__(self) -> None:
        self._shown: Progress | None = None

    def start(self, epoch: int, epochs: int, *, steps: int) -> None:
        if self._shown is None:
            self._shown = self._display()
        self._shown.start(epoch, epochs, steps=steps)

    def _display(self) -> Progress:
        if not is_first_rank():
            return Silent()
        console = make_console()
        if not console.is_terminal:
            return Lines(console)
        bar = Bar(console)
        weakref.finalize(self, bar.close)  # an error leaves the terminal with its cursor, too
        return bar

    def step(self, samples: int, meter: Meter) -> None:
        if self._shown is not None:
            self._shown.step(samples, meter)

    def finish(self, train: Metrics, validation: Metrics | None, samples_per_second: float) -> None:
        if self._shown is not None:
            self._shown.finish(train, validation, samples_per_second)

    def end(self) -> None:
        if self._shown is not None:
            self._shown.end()


def _line(metrics: Metrics, rate: float) -> str:
    speed = f"{rate:,.0f} samples/s"
    if metrics.count == 0:  # under some strategies rank 0 sees no outputs
        return speed
    return f"{speed}  {in_words(metrics)}"


def _validated(metrics: Metrics | None) -> str:
    if metrics is None:
        return ""
    return f"  validation {in_words(metrics)}"


def in_words(metrics: Metrics) -> str:
    """Loss and accuracy, and what else was asked for."""
    more = "".join(f"  {name} {_value(name, value)}" for name, value in metrics.more.items())
    return f"{metrics}{more}"


def baselines_in_words(found: Mapping[str, Any]) -> str:
    """What simple models came to, each by what it is judged by."""
    words = []
    for name, values in found.items():
        if name != "left_out":
            accuracy, more = values["accuracy"], values["more"]
            told = (f"{one} {_value(one, value)}" for one, value in more.items())
            words.append(f"{name} {', '.join(told) if accuracy is None else f'{accuracy:.2%}'}")
    if "left_out" in found:
        words.append(f"without a {found['left_out']}")
    return "; ".join(words)


def _value(name: str, value: float) -> str:
    if name.startswith("top-"):
        return f"{value:.2%}"
    # Errors are in the unit of the targets, which may be large or small.
    return f"{value:.5g}" if name in ("mae", "rmse", "mse") else f"{value:.4f}"


@contextmanager
def shown_progress(console: Console) -> Iterator[Progress]:
    """The display that suits where the output goes; a terminal is left as it was found."""
    if not console.is_terminal:
        yield Lines(console)
        return
    bar = Bar(console)
    try:
        yield bar
    finally:
        bar.close()
