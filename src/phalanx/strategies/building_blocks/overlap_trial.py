"""`--exchange auto`: gradients travel during the backward pass or after it, by what steps take.

A pass that is disturbed takes longer, and what travels after it makes everybody wait: which of both
costs less depends on the model, the cores and the network. The sums are the same ones in either
case, begun sooner or later, so that the choice changes no bit of what is trained.
"""

import time
from collections.abc import Sequence
from typing import final

from phalanx.comm.base import Communicator
from phalanx.exchange.overlap import Overlap
from phalanx.strategies.base import TextTable

#: Steps that are measured of either kind, in turn, behind a first one that has all to warm up.
_STEPS = 5
#: What steps without overlap may take of those with it, for it to be given up: cores and networks
#: that others use make more of a difference than that from one step to the next.
_CLEARLY = 0.95


@final
class OverlapTrial:
    """Has an overlap pause in every other one of the first steps, and then go on or stay away."""

    def __init__(self, comm: Communicator, overlap: Overlap) -> None:
        self._comm, self._overlap = comm, overlap
        self._steps = 0
        self._last = 0.0
        #: What steps took without overlap, and with it.
        self._seconds: tuple[list[float], list[float]] = ([], [])
        self._table: TextTable | None = None

    def step_over(self) -> None:
        """Collective. The sums of one more step are there."""
        if self._steps > 2 * _STEPS:
            return
        now = time.perf_counter()
        if self._steps:
            self._seconds[not self._overlap.paused].append(now - self._last)
        self._last = now
        self._steps += 1
        self._overlap.paused = self._steps % 2 == 0
        if self._steps > 2 * _STEPS:
            self._choose()

    def _choose(self) -> None:
        """Collective. Go on in the way in which the slowest rank has been faster."""
        mine = (*(min(one) for one in self._seconds), self._overlap.possible)
        everyone = self._comm.allgather_objects(mine)
        after, during = (max(one[kind] for one in everyone) for kind in (0, 1))
        if not all(possible for *_, possible in everyone):
            return
        self._overlap.paused = after < _CLEARLY * during
        self._table = TextTable(
            "--exchange auto: gradients travel "
            + (
                "after the backward pass, which is clearly faster here"
                if self._overlap.paused
                else "during the backward pass: after it is not clearly faster here"
            ),
            ("gradients travel", "ms a step, of the first ones"),
            (
                ("after the backward pass", f"{after * 1e3:.1f}"),
                ("during the backward pass", f"{during * 1e3:.1f}"),
            ),
        )

    def report(self) -> Sequence[TextTable]:
        """The choice, and why; nothing if there was none."""
        return () if self._table is None else (self._table,)
