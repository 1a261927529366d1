"""A training that goes on without the ranks that it loses.

While it goes on, its hosts keep copies of its state in memory. When ranks are lost, those that are
left go on from the newest copy, on as many ranks as they are: the few steps since are done again,
and with fixed shards to the same bits as if nobody had been lost.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from phalanx.checkpoints.in_memory import Copies, newest_of_all
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.launch import roll_call
from phalanx.comm.recovery.survivors import (
    Survivors,
    agree,
    check_all_here,
    noticing_losses,
    shrink,
)
from phalanx.errors import RankLostError
from phalanx.state import State
from phalanx.train.interruption.stop_on_signal import StoppedError
from phalanx.train.position import Position
from phalanx.wording import counted

log = logging.getLogger("phalanx.train")

#: What a rank whose own error has ended an attempt gets to say so in, before the others do.
_SECONDS_TO_SPEAK = 3.0


@final
@dataclass
class Loss:
    """Ranks that were lost."""

    #: By the numbers that they were started with.
    ranks: list[int]
    #: The steps that were done by then, as far as this rank knows.
    step: int
    #: When it was noticed, in seconds since 1970.
    noticed: float
    #: Those that the others went on from; None as long as they have not.
    from_step: int | None = None
    #: Whether others have taken their places.
    replaced: bool = False
    #: From when it was noticed until the training was as far again.
    seconds: float | None = None


@final
class Survival:
    """One rank's copies of a training, and what has been lost so far."""

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self._numbers = list(range(world().size))
        self._held: dict[int, State] = {}
        self._copies: Copies | None = None
        self._step = 0
        self._noticed = 0.0

    def begin(self, comm: Communicator) -> State | None:
        """Collective. The newest state that anybody has; None at the beginning. Copies are kept
        from now on."""
        held = dict(self._held)
        if self._copies is not None and self._copies.mark:
            held[self._copies.mark] = self._copies.read()
        mark, state = newest_of_all(comm, held)
        copies = Copies(comm)
        self.check_all_here()
        self._held = {mark: state} if mark else {}
        self._copies = copies
        return state if mark else None

    def check_all_here(self) -> None:
        """Collective. Raise if any rank is lost: what it took part in must not be kept."""
        check_all_here()

    def keep(self, state: State, position: Position) -> None:
        """Collective. Copy this rank's parts of a state."""
        assert self._copies is not None
        if self._held and self._copies.mark:  # whole since before the last exchange
            self._held = {}
        mark = 2 * position.step + (not position.inside_epoch)
        self._copies.write(state, mark, check=self.check_all_here)

    def after_step(self, step: int) -> None:
        """So many steps are done."""
        self._step = step
        self._catch_up(step)

    def notice(self) -> None:
        """An operation with other ranks has failed."""
        self._noticed = time.time()

    def lose(self, left: Survivors) -> list[int]:
        """Go on without those who are lost."""
        lost = [self._numbers[one] for one in left.lost]
        self._numbers = [one for one in self._numbers if one not in lost]
        self.losses.append(Loss(lost, self._step, self._noticed or time.time()))
        return lost

    def replaced(self, lost: list[int]) -> None:
        """Others have taken their places, last in the order of ranks."""
        self._numbers += lost
        self.losses[-1].replaced = True

    def going_on(self, comm: Communicator, step: int) -> None:
        """Say who goes on, and from where."""
        missed = [one for one in self.losses if one.from_step is None]  # several, if in a row
        for one in missed:
            one.from_step = step
        if missed and comm.rank == 0:
            log.warning("%s", _in_words(missed, left=comm.size))
        self._catch_up(step)  # behind the last step nothing is done again

    def _catch_up(self, step: int) -> None:
        for one in self.losses:
            if one.seconds is None and one.from_step is not None and step >= one.step:
                one.seconds = time.time() - one.noticed


def _in_words(missed: list[Loss], *, left: int) -> str:
    ranks = [rank for one in missed for rank in one.ranks]
    names = ", ".join(map(str, ranks))
    who = f"rank {names} is" if len(ranks) == 1 else f"ranks {names} are"
    new = sum(len(one.ranks) for one in missed if one.replaced)
    others = f"{counted(left, 'rank')}{f', {new} of them new,' if new else ''}"
    last, seconds = missed[-1], time.time() - missed[0].noticed
    return (
        f"{who} lost after step {last.step}: {others} go{'es' * (left == 1)} on "
        f"from step {last.from_step}, after {seconds:.2f} s"
    )


def survive(
    attempt: Callable[[Survival], dict[str, Any]], replace: Callable[[int], bool] | None = None
) -> dict[str, Any]:
    """Collective. Have something done, again by whoever is left, until it has come to its end.

    `replace` starts so many ranks in the place of those that are lost; whether that has worked. An
    error that no lost rank has to do with is raised again.
    """
    roll_call.arrive()
    survival = Survival()
    roll_call.begin(world().size)
    while True:
        outcome = _tried(attempt, survival)
        if agree(isinstance(outcome, dict | StoppedError)):
            return _made_of(outcome)
        left = shrink()
        if not left.lost:
            if isinstance(outcome, RankLostError):
                time.sleep(_SECONDS_TO_SPEAK)
            return _made_of(outcome)
        lost = survival.lose(left)
        if replace is not None and replace(len(lost)):
            survival.replaced(lost)


def _tried(
    attempt: Callable[[Survival], dict[str, Any]], survival: Survival
) -> dict[str, Any] | Exception:
    """What has come of it: any error may be about what an operation left that a rank died in."""
    try:
        with noticing_losses():
            return attempt(survival)
    except Exception as error:
        survival.notice()
        return error


def _made_of(outcome: dict[str, Any] | Exception) -> dict[str, Any]:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
