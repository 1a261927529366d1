"""New starts of Horovod in the middle of a training, on the ranks that there are then."""

import logging
from typing import final

from phalanx.comm import world
from phalanx.comm.launch.fault_tolerance import can_survive
from phalanx.comm.recovery.survivors import Survivors, noticing_losses, shrink
from phalanx.errors import RankLostError
from phalanx.horovod.api import basics
from phalanx.horovod.api.operations import barrier
from phalanx.horovod.api.process_sets import forget_all
from phalanx.horovod.engine import context
from phalanx.horovod.engine.negotiation import name_ranks
from phalanx.horovod.engine.settings import Settings, read_settings

LOGGER = logging.getLogger("phalanx.horovod")


@final
class NewStarts:
    """Those of one training. Where ranks cannot be lost, the same ranks start again."""

    def __init__(self) -> None:
        self._settings: Settings = read_settings()
        self._survives = can_survive() and world().size > 1
        #: How often ranks were lost.
        self._losses = 0

    def start_again(self) -> bool:
        """Collective over the ranks that are left; whether there are fewer of them than before.

        Where ranks can be lost this ends what the others are doing, as a loss does: they come here,
        too. Of the process sets only the global one is there afterwards.
        """
        if not self._survives:
            basics.shutdown()
            basics.init()
            return False
        _check_everyone_is_in()
        losses = self._losses
        while True:
            try:
                with noticing_losses():
                    left = _shrink()
            except RankLostError:  # one more, in the meantime
                continue
            self._note(left)
            try:
                with noticing_losses():
                    basics.init()
            except RankLostError:
                continue
            return self._losses > losses

    def wait_for_all(self) -> None:
        """Collective. A training is over when it is on all ranks: until then one may be lost, and
        the others need this one to go on."""
        if self._survives and basics.is_initialized():
            barrier()

    def _note(self, left: Survivors) -> None:
        """Go on, or say why not."""
        if not left.lost:
            return
        self._losses += 1
        size = left.comm.size
        lost = f"{name_ranks(left.lost)} {'are' if len(left.lost) > 1 else 'is'} lost"
        least, most = self._settings.min_ranks, self._settings.reset_limit
        if size < least:
            raise RankLostError(
                f"{lost}: {size} of {size + len(left.lost)} ranks are left, and --min-np {least} "
                "asks for more"
            )
        if most is not None and self._losses > most:
            raise RankLostError(f"{lost}: that is more often than --reset-limit {most} allows")
        if left.comm.rank == 0:
            LOGGER.warning("%s: going on from the last commit with %d", lost, size)


def _shrink() -> Survivors:
    context.abandon_context()
    forget_all()
    return shrink()


def _check_everyone_is_in() -> None:
    if context.is_open() and basics.size() != world().size:
        raise RankLostError(
            f"hvd.init(comm=…) was given {basics.size()} of {world().size} ranks: only a training "
            "on all ranks goes on without lost ones"
        )
