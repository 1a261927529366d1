"""In which steps all ranks look at something together: seldom, and in the same ones."""

import time
from typing import final


@final
class Looks:
    """About every so many seconds. Between them a rank asks nobody, and has nothing to wait for."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._looked, self._looked_at = time.monotonic(), -1
        self._next = 0

    def is_due(self, step: int) -> bool:
        """Whether ranks look after this step."""
        return step >= self._next

    def until_next(self, step: int) -> int:
        """After how many steps to look again, by this rank's clock; ranks agree on one's answer."""
        if self._looked_at < 0:
            return 1
        rate = (step - self._looked_at) / max(time.monotonic() - self._looked, 1e-9)
        # At most ten times as far as the last look: the first steps may have been slow, or fast.
        return max(1, min(int(rate * self._seconds), 10 * (step - self._looked_at)))

    def agreed(self, step: int, ahead: int) -> None:
        """The ranks have looked after this step, and will again so many steps ahead."""
        self._looked, self._looked_at = time.monotonic(), step
        self._next = step + ahead
