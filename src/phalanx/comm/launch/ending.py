"""What a launcher does about signals: the first asks its ranks to end in order, where they can."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import final

from phalanx.comm.launch.asking import ASKING, finishing
from phalanx.comm.launch.screen import Screen
from phalanx.comm.launch.signal_reader import handle, handle_again
from phalanx.comm.launch.way_back import Notes, Pipe

#: What mpiexec does not hear. Slurm signals every process of a job, and mpiexec would end the ranks
#: in the middle of what the launcher has just asked them for. It is ended by SIGINT, and starts its
#: ranks with none held back.
DEAF = (signal.SIGTERM, signal.SIGHUP)
#: Seconds between asking mpiexec to end the ranks and killing it. The whole end stays below 5 s.
_PATIENCE = 3.0


@final
class Ending:
    """The signals of one job, while it goes on and after."""

    def __init__(
        self, process: subprocess.Popen[bytes], *, notes: Notes, requests: Pipe, screen: Screen
    ) -> None:
        self._process, self._notes = process, notes
        self._requests, self._screen = requests, screen
        self._received: list[int] = []
        self._at_once = False

    @property
    def number(self) -> int | None:
        """The signal that has ended the job, the launcher's or a rank's own, if one has.

        None also if the ranks came to their end before they heard of it.
        """
        if self._at_once:
            return self._received[0]
        stopped = self._notes["stopped"]
        return int(stopped) if stopped.isdecimal() else None

    @contextmanager
    def by_signals(self) -> Iterator[None]:
        """While inside, a signal to this launcher ends the job first; whatever ends it, no process
        of it is there afterwards."""
        before = handle(ASKING, self._receive)
        try:
            yield
        finally:
            handle_again(before)
            self._kill()

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if self._process.poll() is not None:  # it is over
            return
        self._received.append(number)
        if len(self._received) > 1 or not self._notes["stops"]:
            self._end()
            return
        self._requests.write(bytes([number]))
        self._screen.end_line()
        print(finishing(number), file=sys.stderr, flush=True)

    def _end(self) -> None:
        if not self._at_once:
            self._at_once = True
            self._process.send_signal(signal.SIGINT)  # at a second one it would talk of the first
            killer = threading.Timer(_PATIENCE, self._kill)
            killer.daemon = True
            killer.start()

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
