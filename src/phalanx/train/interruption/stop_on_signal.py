"""Signals that ask a training to stop in order, and the second one, which does not ask."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import final

from phalanx.comm.launch.asking import finishing
from phalanx.comm.launch.job import current_job, is_first_rank
from phalanx.comm.launch.signal_reader import SignalReader, end_by
from phalanx.comm.launch.way_back import requests_of_launcher, tell_launcher

#: Slurm signals the tasks of a step, and its srun, which passes it on to them.
_SECONDS_BETWEEN_COPIES = 1.0


class StoppedError(Exception):
    """A training was asked to stop, and has: on all ranks, with a checkpoint."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        #: What this process ends with: one of a job's, if any, tells what has ended the training.
        self.exit_code = 0


@final
class StopOnSignal(AbstractContextManager["StopOnSignal"]):
    """While inside, Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 ask for an end in order; for `fit(stop=…)`.

    A second one ends the process at once. Called, it returns the number of the signal that this
    rank has received, or its launcher; 0 as long as there is none. Enter it on every rank, in the
    main thread. `again` is called with a signal's number, from another thread, when the process is
    about to end by it.
    """

    def __init__(self, *, again: Callable[[int], None] = lambda number: None) -> None:
        self._again = again
        self._number, self._since = 0, 0.0
        self._reader = SignalReader(self._receive)
        self._requests: Callable[[], int] = lambda: 0

    def __call__(self) -> int:
        if self._number == 0:
            self._number = self._requests()
        return self._number

    def __enter__(self) -> "StopOnSignal":
        self._reader.__enter__()
        if is_first_rank():
            self._requests = requests_of_launcher()
            tell_launcher("stops", "in order")
        return self

    def __exit__(self, *_error: object) -> None:
        if is_first_rank() and self._number == 0:
            tell_launcher("stops", "")
        self._reader.__exit__()

    def _receive(self, number: int) -> None:
        now = time.monotonic()
        if self._number == 0:
            self._number, self._since = number, now
            if is_first_rank() and not tell_launcher("asked", str(number)):  # which says so itself
                print(finishing(number), file=sys.stderr, flush=True)
        elif not _has_copies() or now - self._since > _SECONDS_BETWEEN_COPIES:
            self._again(number)
            end_by(number)


def _has_copies() -> bool:
    """Whether one signal may come several times, by several ways."""
    return "SLURM_JOB_ID" in os.environ or current_job() is not None
