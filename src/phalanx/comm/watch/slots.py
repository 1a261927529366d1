"""What the ranks of a host tell each other about themselves, in memory that they share.

No rank is asked for it, for one that stands still would not answer: each writes its own slot now
and then, and everybody reads all of them. Times are those of the host's monotonic clock, in
nanoseconds.
"""

from typing import Any, NamedTuple, final

import numpy as np
import torch

from phalanx.comm.base import Communicator
from phalanx.comm.shared import SharedMemory, SharedMemoryError, room_for

#: Bytes for a rank's stack.
ROOM = 1 << 14
#: Behind what a rank says of itself: when its stack was asked for, when it was given, its length.
_WANTED, _GIVEN, _LENGTH = 13, 14, 15
_WIDTH = 16


class Slot(NamedTuple):
    """One rank, as it saw itself last."""

    rank: int
    process: int
    #: When its process began, as the kernel counts it: another may have its number one day, or has
    #: it where ranks share memory but not their processes.
    born: int
    #: When it looked at itself, and when something of its work was last done.
    looked: int
    moved: int
    #: The last step that was done; -1 before the first.
    step: int
    #: Whether it is inside of a communication.
    waits: int
    #: The processor's time that its main thread has taken since `moved`.
    computed: int
    #: Its descriptor of the file that a signal has it write its stack to; -1 if there is none.
    stack_file: int
    #: Whether it is watched no longer.
    over: int


@final
class Slots:
    """The slots of the ranks of a host; `mine` is this rank's."""

    def __init__(self, comm: Communicator) -> None:
        """Collective. Where ranks cannot share memory, each has but its own."""
        host = comm.host()
        self.mine, size = host.rank, host.size
        numbers, texts = (size, _WIDTH), (size, ROOM)
        room = room_for(numbers, torch.int64) + room_for(texts, torch.uint8)
        try:
            memory = SharedMemory(host, room)
            self._numbers: Any = memory.tensor(numbers, torch.int64).numpy()
            self._texts: Any = memory.tensor(texts, torch.uint8).numpy()
        except SharedMemoryError:
            self.mine, size = 0, 1
            self._numbers = np.zeros((size, _WIDTH), dtype=np.int64)
            self._texts = np.zeros((size, ROOM), dtype=np.uint8)
        host.free()

    def write(self, slot: Slot) -> None:
        """Say how this rank is."""
        self._numbers[self.mine, : len(slot)] = slot

    def read(self) -> list[Slot]:
        """How everybody was when they last looked; in the order of ranks."""
        width = len(Slot._fields)
        return [Slot(*row) for row in self._numbers[:, :width].tolist()]

    def ask_for_stacks(self, now: int) -> None:
        """Have every rank write its stack when it next looks."""
        self._numbers[:, _WANTED] = now

    @property
    def is_asked(self) -> bool:
        """Whether this rank is to write its stack."""
        row = self._numbers[self.mine]
        return bool(row[_GIVEN] < row[_WANTED])

    def give_stack(self, text: str) -> None:
        """Write this rank's stack, or as much of it as there is room for."""
        row = self._numbers[self.mine]
        wanted, data = row[_WANTED], text.encode(errors="replace")[:ROOM]
        self._texts[self.mine, : len(data)] = np.frombuffer(data, dtype=np.uint8)
        row[_LENGTH] = len(data)
        row[_GIVEN] = wanted

    def stack(self, index: int) -> str | None:
        """What the rank of that slot has answered; None if it has not."""
        row = self._numbers[index]
        if row[_GIVEN] < row[_WANTED]:
            return None
        return bytes(self._texts[index, : row[_LENGTH]]).decode(errors="replace")
