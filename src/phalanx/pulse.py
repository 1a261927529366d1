"""The pulse of this process: signs that it gets on, for whoever watches it (`phalanx.comm.watch`).

Whoever has something done says so by one more beat: a phase was entered, a step taken, a chunk of
samples evaluated. That costs some nanoseconds, whether anybody watches or not.
"""

from typing import final


@final
class Pulse:
    """How often something was done, and the last step of a training that was."""

    __slots__ = ("beats", "step")

    def __init__(self) -> None:
        self.beats = 0
        #: None before the first step.
        self.step: int | None = None


pulse = Pulse()
