"""Copies of a training's state in the memory of its hosts, for the ranks that are left of a job.

Each host has the two newest copies in memory that its ranks share: whatever becomes of a rank while
it writes one, the one before is whole, and what the rank has written is still there when it is not.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from math import prod
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.comm.shared import SharedMemory, room_for
from phalanx.state import Share, Slice, State, gather
from phalanx.state.gathering import Outline, merged, outline
from phalanx.state.parts import Part, elements, shaped

_ALIGNED = 64


class _Place(NamedTuple):
    """A part of a tensor, who of a host writes it, and where in the memory of a copy it is."""

    outline: Outline
    writer: int
    first_byte: int

    @property
    def end(self) -> int:
        """The byte behind its last."""
        kind, shape, dtype, _, _, length = self.outline
        return self.first_byte + (length if kind == "slice" else prod(shape)) * dtype.itemsize

    def view(self, memory: Tensor) -> Tensor:
        """Its elements in a row."""
        return memory[self.first_byte : self.end].view(self.outline.dtype)


#: The parts of each tensor.
_Plan = dict[str, list[_Place]]


@final
class Copies:
    """The copies that the ranks of a communicator keep of what they train."""

    def __init__(self, comm: Communicator) -> None:
        """Collective."""
        self._comm = comm
        self._host = comm.host()
        self._outlines: dict[str, Outline] = {}
        self._plan: _Plan = {}
        self._slots: dict[int, _Slot] = {}
        self._turn = 0

    def write(self, state: State, mark: int, *, check: Callable[[], None] = lambda: None) -> None:
        """Collective. Copy this rank's parts of a state; its mark tells it from others, and is the
        higher the farther the training has come. It counts unless `check` raises.

        Between two copies all ranks must have communicated, or one of them could overwrite the only
        whole one.
        """
        assert mark > 0
        shares = {name: one for name, one in state.tensors.items() if isinstance(one, Share)}
        summed = gather(self._comm, State({**shares})).tensors if shares else {}
        tensors = {**state.tensors, **summed}  # what is lost with a rank is in the sum already
        self._agree({name: outline(one) for name, one in tensors.items()})
        self._turn = 1 - self._turn
        slot = self._slots.get(self._turn)
        if slot is None or slot.plan is not self._plan:
            self._slots.pop(self._turn, None)  # before there is a third
            slot = self._slots[self._turn] = _Slot(self._host, self._plan)
        slot.write(tensors, state.values)
        check()
        slot.finish(mark)

    def _agree(self, outlines: dict[str, Outline]) -> None:
        """Collective on a host. Plan anew if any rank has other parts than the last time."""
        told = None if outlines == self._outlines else outlines
        everyone = self._host.allgather_objects(told)
        if any(one is not None for one in everyone):
            self._outlines = outlines
            self._plan = _planned(self._host.allgather_objects(outlines))

    @property
    def mark(self) -> int:
        """That of the newest copy that is whole on this host; 0 if none is."""
        return max((one.mark for one in self._slots.values() if one.is_whole), default=0)

    def read(self) -> State:
        """The newest copy that is whole on this host."""
        return max(
            (one for one in self._slots.values() if one.is_whole), key=lambda one: one.mark
        ).read()


def newest_of_all(left: Communicator, held: Mapping[int, State]) -> tuple[int, State]:
    """Collective. The newest of all states that any rank holds, by their marks; 0 if none does."""
    mark = max(left.allgather_objects(max(held, default=0)))
    mine = held.get(mark, State())
    values = [one for one in left.allgather_objects(mine.values) if one]
    whole = gather(left, State(mine.tensors, merged(values) if values else {}))
    return mark, State(whole.tensors, whole.values)


@final
class _Slot:
    """One copy on one host."""

    def __init__(self, host: Communicator, plan: _Plan) -> None:
        """Collective on a host."""
        self.plan, self._rank = plan, host.rank
        self._values: dict[str, Any] = {}
        size = max((one.end for parts in plan.values() for one in parts), default=0)
        shape = (host.size,), torch.int64
        memory = SharedMemory(host, room_for((size,), torch.uint8) + room_for(*shape))
        self._finished = memory.tensor(*shape)  # by each rank: the mark of the copy
        self._memory = memory.tensor((size,), torch.uint8)

    @property
    def mark(self) -> int:
        return int(self._finished[self._rank])

    @property
    def is_whole(self) -> bool:
        """Whether all ranks of this host, those that are lost too, have written their parts."""
        return self.mark > 0 and bool((self._finished == self.mark).all())

    def write(self, tensors: Mapping[str, Part], values: dict[str, Any]) -> None:
        self._finished[self._rank] = 0
        for name, parts in self.plan.items():
            for place in parts:
                if place.writer == self._rank:
                    place.view(self._memory).copy_(_elements(tensors[name]))
        self._values = deepcopy(values)

    def finish(self, mark: int) -> None:
        """This rank's parts are written."""
        self._finished[self._rank] = mark

    def read(self) -> State:
        tensors: dict[str, Part] = {name: self._read(parts) for name, parts in self.plan.items()}
        return State(tensors, deepcopy(self._values))

    def _read(self, parts: list[_Place]) -> Tensor:
        first = parts[0].outline
        if first.kind == "whole":
            return parts[0].view(self._memory).reshape(first.shape)
        row = torch.cat([one.view(self._memory) for one in parts])
        return shaped(row, first.shape, first.order)


def _planned(everyone: Sequence[Mapping[str, Outline]]) -> _Plan:
    """Who of a host writes what, so that all have about as much to do, and where."""
    plan: _Plan = {}
    busy, end = [0] * len(everyone), 0
    for name in dict.fromkeys(name for one in everyone for name in one):
        there = {rank: one[name] for rank, one in enumerate(everyone) if name in one}
        whole = {rank: one for rank, one in there.items() if one.kind == "whole"}
        if whole:
            writer = min(whole, key=lambda rank: busy[rank])
            chosen = [(writer, whole[writer])]
        else:
            first = {one.start: (rank, one) for rank, one in reversed(there.items()) if one.length}
            chosen = [first[start] for start in sorted(first)] or list(there.items())[:1]
        plan[name] = []
        for rank, one in chosen:
            place = _Place(one, rank, end)
            busy[rank] += place.end - end
            end = -(-place.end // _ALIGNED) * _ALIGNED
            plan[name].append(place)
    return plan


def _elements(part: Part) -> Tensor:
    if isinstance(part, Slice):
        return part.values.reshape(-1)
    assert isinstance(part, Tensor)
    return elements(part, tuple(range(part.dim())))
