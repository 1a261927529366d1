"""How to wait for other ranks without taking their cores from them.

For small messages, naps and not `sched_yield`: on a busy machine to yield is to wait for everybody
else's turn to end, while who wakes from a nap comes first. For large ones the other way round: MPI
moves them only while it is called, so whoever waits for them had better call it all the time.
"""

import os
import time
from typing import final

#: How often a waiting caller looks again at once, before it begins to nap.
SPINS_OF_A_CALLER = 600
SPINS_OF_A_THREAD = 4
_FIRST_NAP = 0.00002


@final
class Backoff:
    """Looks at first in close succession, then after naps that grow up to a longest one."""

    def __init__(self, *, spins: int, longest: float, yielding: bool = False) -> None:
        self._yielding = yielding
        self._spins = spins
        self._longest = longest
        self.renew()

    def renew(self) -> None:
        """Something has happened: the next thing may happen soon."""
        self._left = self._spins
        self._nap = _FIRST_NAP

    def rest(self) -> None:
        """Let some time pass."""
        if self._left:
            self._left -= 1
            if self._yielding:
                os.sched_yield()
            return
        time.sleep(self._nap)
        self._nap = min(self._nap * 2, self._longest)
