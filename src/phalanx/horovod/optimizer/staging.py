"""A bucket of gradients on a GPU, and its copy in the host's memory, where sums are made.

It goes there and back as a whole, through pinned memory: one copy each way and bucket, whatever the
number of its parameters.
"""

from collections.abc import Sequence
from typing import final

from torch import Tensor, nn

from phalanx.comm.device.staged import Rooms
from phalanx.comm.device.streams import Mark, mark, wait_for


@final
class Staging:
    """One bucket, where its gradients are; in the host's memory it is there already."""

    def __init__(self, host: Tensor, parameters: Sequence[nn.Parameter]) -> None:
        """`host`: what is summed. Parameters on several devices are copied there one by one."""
        self._host = host
        devices = {parameter.device for parameter in parameters}
        self._is_away = len(devices) == 1 and devices != {host.device}
        #: What the views of gradients are of.
        self.flat = host
        self._marks: list[Mark] = []
        if self._is_away:
            self.flat = host.new_zeros(host.shape, device=devices.pop())
            self._room = Rooms().take(host)

    def packed(self, view: Tensor) -> None:
        """A gradient is on its way into its view, in the stream of its part of the pass."""
        if self._is_away:
            self._marks += mark([view])

    def to_host(self) -> None:
        """Have the host's memory hold what the bucket does, once all of it is there."""
        if self._is_away:
            wait_for(self._marks)
            self._marks.clear()
            self._room.copy_(self.flat)
            self._host.copy_(self._room)

    def from_host(self) -> None:
        """Have the bucket hold what the host's memory does."""
        if self._is_away:
            self._room.copy_(self._host)
            self.flat.copy_(self._room, non_blocking=True)
