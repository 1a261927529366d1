"""Which ranks of a host stand still, and which of them only wait for those."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple


class Condition(IntEnum):
    """How a rank is, from what accounts for a stall most to what does least."""

    #: By a signal, or by a debugger.
    STOPPED = 0
    #: Its Python does not run, not even in other threads.
    SILENT = 1
    #: In the kernel, for a file system or a device.
    BLOCKED = 2
    #: In code of its own, which may compute or wait for something that is no rank.
    BUSY = 3
    #: For other ranks.
    WAITING = 4
    #: It has ended, or is watched no longer.
    OVER = 5


class Standing(NamedTuple):
    """One rank, as the others see it."""

    rank: int
    process: int
    condition: Condition
    #: Seconds since something of its work was last done.
    idle: float
    #: The last step that was done; None before the first.
    step: int | None = None
    #: The share of a core that its main thread has used since.
    load: float = 0.0
    #: Whether its thread looks now and then, whatever the main thread does.
    runs: bool = True
    #: Where in the kernel it is, if it is blocked there.
    place: str = ""

    @property
    def computes(self) -> bool:
        """Whether its main thread is at work; on a crowded machine it may get little of a core."""
        return self.load > 0.05


def to_blame(ranks: Sequence[Standing], *, after: float) -> list[Standing] | None:
    """Who has stood still for so many seconds; None if nobody has.

    Nobody in particular, an empty list, if all ranks of this host wait for others, and have for
    some time longer: the host of whoever they wait for should speak first.
    """
    present = [one for one in ranks if one.condition != Condition.OVER]
    still = [one for one in present if one.idle >= after and one.condition != Condition.WAITING]
    if still:
        # One that is stopped accounts for others that wait for it in code that we do not know.
        worst = min(one.condition for one in still)
        return [one for one in still if one.condition == worst]
    longer = after + max(5.0, after / 4)
    if present and all(one.idle >= longer for one in present):
        return []
    return None
