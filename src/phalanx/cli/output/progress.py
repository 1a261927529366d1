"""What a person sees while a training runs: a bar on a terminal, throttled lines elsewhere.

Ranks other than 0 get `Silent`. Under mpiexec every rank's standard output claims to be a terminal
(it is a pseudo-terminal of mpiexec's), so the launcher passes on what it saw itself.
"""

import time

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from phalanx.train.metrics import Meter, Metrics
from phalanx.train.progress import Progress


class Lines(Progress):
    """A line an epoch, and one every few seconds while an epoch lasts."""

    def __init__(self, console: Console, *, interval: float = 10.0) -> None:
        self._console = console
        self._interval = interval
        self._label = ""
        self._steps = self._step = 0
        self._started = self._next = 0.0

    def start(self, epoch: int, epochs: int, *, steps: int) -> None:
        self._label = f"epoch {epoch}/{epochs}"
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
        self._say(f"{self._label}  {_line(train, samples_per_second)}{_validated(validation)}")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


class Bar(Progress):
    """A bar an epoch, left standing with the epoch's exact values once it is done."""

    _REFRESH = 0.1

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[values]}"),
        )
        # No refresh thread: it would wake up inside the compute of a rank that owns its core.
        self._bar = RichProgress(*columns, console=console, auto_refresh=False)
        self._task = self._bar.add_task("", total=0, values="")
        self._step = 0
        self._started = self._next = 0.0

    def start(self, epoch: int, epochs: int, *, steps: int) -> None:
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(f"epoch {epoch}/{epochs}", total=steps, values="")
        self._bar.start()
        self._step = 0
        self._started = time.perf_counter()
        self._next = self._started

    def step(self, samples: int, meter: Meter) -> None:
        self._step += 1
        now = time.perf_counter()
        if now < self._next:
            return
        self._next = now + self._REFRESH
        self._show(_line(meter.mine, samples / max(now - self._started, 1e-9)))

    def finish(self, train: Metrics, validation: Metrics | None, samples_per_second: float) -> None:
        self._show(_line(train, samples_per_second) + _validated(validation))
        self._bar.stop()

    def _show(self, values: str) -> None:
        self._bar.update(self._task, completed=self._step, values=values)
        self._bar.refresh()


def _line(metrics: Metrics, rate: float) -> str:
    speed = f"{rate:,.0f} samples/s"
    if metrics.count == 0:  # under some strategies rank 0 sees no outputs
        return speed
    return f"{speed}  loss {metrics.loss:.4f}  accuracy {metrics.accuracy:.2%}"


def _validated(metrics: Metrics | None) -> str:
    if metrics is None:
        return ""
    return f"  validation loss {metrics.loss:.4f}  accuracy {metrics.accuracy:.2%}"


def make_progress(console: Console) -> Progress:
    """The display that suits where the output goes."""
    return Bar(console) if console.is_terminal else Lines(console)
