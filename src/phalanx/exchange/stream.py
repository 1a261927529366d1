"""Sums that go on by themselves, in steps that all ranks take in the same order."""

from collections.abc import Sequence
from typing import final

from torch import Tensor

from phalanx.comm.progress import Background
from phalanx.exchange.sums import Sum

#: How many sums start before one that is through with its turns finishes.
_AHEAD = 2


@final
class Stream:
    """Several sums, each of which starts, turns and finishes once a step.

    When a rank finds that something has arrived is a matter of luck, and the order in which it
    calls MPI must not be. So all that is to be done has one order, the same on every rank: a sum
    takes a turn when the next one has started, and finishes two later. So several are on their way
    at any time, and what follows on the last one is short.
    """

    def __init__(self, sums: Sequence[Sum], *, threaded: bool) -> None:
        """`threaded`: whether a thread may see to them."""
        self._sums = sums
        steps = [
            (number + later, step, number)
            for number, one in enumerate(sums)
            for step, later in enumerate(_places(one))
        ]
        #: Which sum takes which of its steps: start, turns, finish.
        self._order = [(number, step) for _, step, number in sorted(steps)]
        #: How many may have started in the step that is not over.
        self.started = 0
        self._done = 0
        self._background = Background(self._advance, threaded=threaded)

    @property
    def tensors(self) -> list[Tensor]:
        """What is summed."""
        return [one.tensor for one in self._sums]

    def start_next(self) -> None:
        """Let the first that has not been start, without waiting for anybody."""
        self.started += 1
        self._background.begin()

    def finish(self) -> None:
        """Collective. Start those that have not been, and wait for all."""
        self.started = len(self._sums)
        self._background.finish()
        self.started = self._done = 0

    def close(self) -> None:
        """End what sees to the sums."""
        self._background.close()

    def _advance(self) -> bool:
        """Do what can be done now; whether that is all there is for now."""
        while self._done < len(self._order):
            number, step = self._order[self._done]
            one = self._sums[number]
            if step == 0:
                if number >= self.started:
                    # MPI may have work with those before, which only a look makes it do: at any
                    # of them, since it then works on everything.
                    return all(other.test() for other in self._sums[:number])
                one.start()
            elif not one.test():
                return False
            elif step <= one.turns:
                one.turn()
            else:
                one.finish()
            self._done += 1
        return True


def _places(one: Sum) -> list[float]:
    """Behind the start of how many more sums each step of one has its place."""
    # What follows at once has its place before the next one starts.
    turns = [
        0.5 if turn <= one.turns_at_once else turn - one.turns_at_once
        for turn in range(1, one.turns + 1)
    ]
    return [0.0, *turns, max(turns, default=0.0) + _AHEAD]
