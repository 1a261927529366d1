"""How far an evaluation is: rank 0's forward passes, one by one."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from torch import nn

from phalanx.cli.output.console import make_console
from phalanx.train.evaluation import CHUNK
from phalanx.train.session import Session

_REFRESH = 0.1
#: Seconds between two lines where there is no terminal.
_INTERVAL = 10.0


def shown_evaluation(session: Session, what: str) -> AbstractContextManager[None]:
    """While inside, rank 0 shows how far the use of a session's model on its test samples is."""
    if not session.is_first:
        return nullcontext()
    total = -(-len(session.dataset.test) // (CHUNK * session.comm.size))
    return shown_passes(make_console(), session.model, what=what, total=total)


@contextmanager
def shown_passes(console: Console, model: nn.Module, *, what: str, total: int) -> Iterator[None]:
    """While inside, show the model's passes: a bar on a terminal, else a line now and then.

    The lines go to standard error, so that what a command prints is its result alone.
    """
    bar = RichProgress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        auto_refresh=False,
        transient=True,
    )
    task = bar.add_task(what, total=total)
    interval = _REFRESH if console.is_terminal else _INTERVAL
    due, done = time.perf_counter() + interval, 0

    def passed(*_: Any) -> None:
        nonlocal due, done
        done += 1
        if time.perf_counter() < due:
            return
        due = time.perf_counter() + interval
        if console.is_terminal:
            bar.start()
            bar.update(task, completed=done)
            bar.refresh()
        else:
            print(f"{what}: {min(done / total, 1):.0%}", file=sys.stderr, flush=True)

    hook = model.register_forward_hook(passed)
    try:
        yield
    finally:
        hook.remove()
        if console.is_terminal:  # elsewhere it would end with an empty line
            bar.stop()
