"""The channels of an engine. All ranks open and free them in the same rounds, in the same order.

A rank cannot free a channel alone. So when it has no use for one any more it says so in the next
round, and when all ranks have, the channel goes, and its memory with it.
"""

from collections.abc import Mapping, Sequence
from typing import final

from phalanx.comm.base import Communicator
from phalanx.horovod.engine.channel import Channel
from phalanx.horovod.engine.coordinator import Coordinator
from phalanx.horovod.engine.negotiation import Match
from phalanx.horovod.engine.requests import Pending


@final
class Channels:
    """What DistributedOptimizers exchange through, by name. For the thread that drives."""

    def __init__(self, comm: Communicator) -> None:
        """The communicator stays the engine's."""
        self._comm = comm
        self._open: dict[str, Channel] = {}
        #: The ranks that have said of a channel that they do not need it any more.
        self._unused: dict[str, set[int]] = {}

    def get(self, name: str) -> Channel | None:
        """The channel of this name, if there is one."""
        return self._open.get(name)

    def follow(
        self, matches: Sequence[Match], coordinator: Coordinator, mine: Mapping[str, Pending]
    ) -> None:
        """Collective. Do what the ranks have agreed on in a round."""
        for match in (one for one in matches if one.any.verb == "open"):
            channel = self.open(match)
            if match.name in mine:
                mine[match.name].result = channel
        self.free_unused(coordinator.unused_channels)
        if "join" in mine:
            self.stand_in(coordinator.waited_for)
        if coordinator.last_to_join is not None:
            self.settle()  # what this rank stood in for, before its own gradients come

    def open(self, match: Match) -> Channel:
        """Collective. Open what all ranks have asked for, and free what it takes the place of."""
        channel = Channel(self._comm, match)
        # The last part of a name is a number: the channel before it is done with.
        title, _, number = channel.name.rpartition(".")
        self._free(f"{title}.{int(number) - 1}")
        self._open[channel.name] = channel
        return channel

    def free_unused(self, told: Sequence[Sequence[str]]) -> None:
        """Collective. Free what no rank needs; `told`: what each says that it does not, by rank."""
        for rank, names in enumerate(told):
            for name in names:
                self._unused.setdefault(name, set()).add(rank)
        for name in [n for n, ranks in self._unused.items() if len(ranks) == self._comm.size]:
            self._free(name)

    def stand_in(self, steps: Mapping[str, int]) -> None:
        """Take part with zeros in the steps that others wait for, as far as `move_on` is called."""
        for name, until in steps.items():
            if name in self._open:
                self._open[name].stand_in(until=until)

    def move_on(self) -> None:
        """Go on standing in, without waiting for anybody."""
        for channel in self._open.values():
            channel.move_on()

    def settle(self) -> None:
        """End what is under way; the others have done their part of it, or will without us."""
        for channel in self._open.values():
            channel.settle()

    def free(self) -> None:
        """Collective."""
        for name in list(self._open):
            self._free(name)

    def abandon(self) -> None:
        """Ranks are lost: let go of all channels, with nobody's help."""
        for channel in self._open.values():
            channel.abandon()
        self._open.clear()

    def _free(self, name: str) -> None:
        self._unused.pop(name, None)
        channel = self._open.pop(name, None)
        if channel is not None:
            channel.free()
