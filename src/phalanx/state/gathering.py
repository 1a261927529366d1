"""Putting a state that is in parts together: afterwards every rank has all of it."""

from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.state.parts import Part, Share, Slice, State, shaped


class Outline(NamedTuple):
    """What a rank tells the others about a part."""

    kind: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    order: tuple[int, ...] = ()
    start: int = 0
    length: int = 0


def gather(comm: Communicator, state: State) -> State:
    """Collective. The whole of what the ranks have in parts, on every rank.

    Of what several ranks have whole, the first one's counts.
    """
    outlines = {name: outline(part) for name, part in state.tensors.items()}
    everyone = comm.allgather_objects((outlines, state.values))
    whole = State(
        values=merged([values for _, values in everyone]),
        own={name: one.values for name, one in state.tensors.items() if isinstance(one, Share)},
        origin=(comm.rank, comm.size),
    )
    names = dict.fromkeys(name for one, _ in everyone for name in one)
    for name in names:
        told = [one.get(name) for one, _ in everyone]
        whole.tensors[name] = _whole(comm, name, state.tensors.get(name), told)
    return whole


@final
class OneByOne:
    """The tensors of a state that is in parts, put together one at a time."""

    def __init__(self, comm: Communicator, state: State) -> None:
        """Collective."""
        self._comm, self._state = comm, state
        outlines = {name: outline(part) for name, part in state.tensors.items()}
        self._everyone = comm.allgather_objects(outlines)

    def outline(self, name: str) -> Outline:
        """The shape and the type of a tensor, which some rank has or has a part of."""
        return next(one[name] for one in self._everyone if name in one)

    def whole(self, name: str) -> Tensor:
        """Collective. All of a tensor, on every rank."""
        told = [one.get(name) for one in self._everyone]
        return _whole(self._comm, name, self._state.tensors.get(name), told)


def outline(part: Part) -> Outline:
    """What of which tensor a part is, without its elements."""
    if isinstance(part, Slice):
        count = part.values.numel()
        return Outline("slice", part.shape, part.values.dtype, part.order, part.start, count)
    if isinstance(part, Share):
        return Outline(part.how, tuple(part.values.shape), part.values.dtype)
    return Outline("whole", tuple(part.shape), part.dtype)


def _whole(comm: Communicator, name: str, mine: Part | None, told: list[Outline | None]) -> Tensor:
    known = [one for one in told if one is not None]
    owner = next((rank for rank, one in enumerate(told) if one and one.kind == "whole"), None)
    if owner is not None:
        if isinstance(mine, Tensor) and all(one and one.kind == "whole" for one in told):
            return mine
        return _broadcast(comm, mine if isinstance(mine, Tensor) else None, owner, told)
    if known[0].kind == "slice":
        return _joined(comm, name, mine, told)
    return _combined(comm, mine, known)


def _broadcast(
    comm: Communicator, mine: Tensor | None, owner: int, told: list[Outline | None]
) -> Tensor:
    known = told[owner]
    assert known is not None
    if comm.rank == owner:
        assert mine is not None
        buffer = mine.contiguous().clone()
    else:
        buffer = torch.empty(known.shape, dtype=known.dtype)
    comm.broadcast(buffer, owner)
    return buffer


def _joined(comm: Communicator, name: str, mine: Part | None, told: list[Outline | None]) -> Tensor:
    """The slices of all ranks in their places; of the same slice on several, the first one's."""
    first = next(one for one in told if one is not None)
    row = torch.zeros(torch.Size(first.shape).numel(), dtype=first.dtype)
    filled = 0
    seen: set[int] = set()
    for rank, one in enumerate(told):
        if one is None or one.length == 0 or one.start in seen:
            continue
        seen.add(one.start)
        filled += one.length
        place = row[one.start : one.start + one.length]
        if rank == comm.rank:
            assert isinstance(mine, Slice)
            place.copy_(mine.values.reshape(-1))
        comm.broadcast(place, rank)
    if filled != row.numel():
        raise UsageError(
            f"the ranks have {filled:,} of the {row.numel():,} elements of '{name}': a state in "
            "parts is put together by all the ranks that it was taken on"
        )
    return shaped(row, first.shape, first.order)


def _combined(comm: Communicator, mine: Part | None, known: list[Outline]) -> Tensor:
    """The sum or the mean of what the ranks have of their own."""
    # Negative zeros: what added to any number, 0 and -0 as well, leaves it as it is.
    buffer = torch.zeros(known[0].shape, dtype=known[0].dtype).neg_()
    if isinstance(mine, Share):
        buffer.copy_(mine.values)
    comm.allreduce(buffer)
    return buffer.div_(len(known)) if known[0].kind == "mean" else buffer


def merged(everyone: list[Any]) -> Any:
    """The values of all ranks: dictionaries put together, of anything else the first one's."""
    if not all(isinstance(one, dict) for one in everyone):
        return everyone[0]
    keys = dict.fromkeys(key for one in everyone for key in one)
    return {key: merged([one[key] for one in everyone if key in one]) for key in keys}
