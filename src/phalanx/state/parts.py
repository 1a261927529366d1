"""A training's state: tensors by name, whole or in parts that say what of the whole they are.

Names tell what a tensor is, whatever the strategy and the number of ranks:

    parameters/NAME             the weights
    buffers/NAME                running statistics and the like
    optimizer/NAME/ENTRY        what the optimizer keeps about a parameter, such as exp_avg
    strategy/…                  what a strategy keeps between steps
    best/…, metrics/…           what a trainer keeps: its best weights, an epoch's sums so far

Beside them are plain values that JSON knows: the position, hyper-parameters, schedules.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol, final

import torch
from torch import Tensor

from phalanx.errors import UsageError


@final
@dataclass(frozen=True, eq=False)
class Slice:
    """Consecutive elements of a tensor, counted with its dimensions in a certain order.

    Two kinds of parts are alike that way: a run of a tensor's memory, whatever its strides are, and
    a piece along one dimension, which comes first then.
    """

    #: In a row, or in any shape that has them in this order.
    values: Tensor
    #: Of the whole tensor.
    shape: tuple[int, ...]
    #: The dimensions, from the one that changes least from element to element to the last.
    order: tuple[int, ...]
    #: The number of the first element.
    start: int


@final
@dataclass(frozen=True, eq=False)
class Share:
    """One rank's own, of which the sum or the mean over all ranks is the whole."""

    values: Tensor
    how: Literal["sum", "mean"]


Part = Tensor | Slice | Share


@final
@dataclass(eq=False)
class State:
    """Tensors and plain values by name; whole, or this rank's parts until they are gathered."""

    tensors: dict[str, Part] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    #: Of a state that was gathered: what this rank brought to sums and means, and which of how
    #: many ranks it was. The same rank of as many may go on from it as if nothing had happened.
    own: dict[str, Tensor] = field(default_factory=dict)
    origin: tuple[int, int] | None = None

    def add(self, other: "State") -> "State":
        """Take in what another state has; returns this one."""
        self.tensors |= other.tensors
        self.values |= other.values
        return self

    def tensor(self, name: str) -> Tensor:
        """A tensor that must be there, and whole."""
        found = self.tensors.get(name)
        if found is None:
            raise UsageError(f"the state has no '{name}': it is that of another training")
        if not isinstance(found, Tensor):
            raise UsageError(
                f"'{name}' is in parts on several ranks: put them together with gather(comm, state)"
            )
        return found

    def under(self, prefix: str) -> Iterator[tuple[str, Tensor]]:
        """The whole tensors whose names begin so, by the rest of their names."""
        for name in self.tensors:
            if name.startswith(prefix):
                yield name.removeprefix(prefix), self.tensor(name)

    def of_rank(self, rank: int, *, size: int, strategy: str) -> "State | None":
        """The state with this rank's own in place of what all ranks' came to, if it has it."""
        if self.origin != (rank, size) or self.values.get("shared by") != strategy:
            return None
        return State({**self.tensors, **self.own}, self.values)

    def to_host(self) -> "State":
        """Have all of it in host memory, wherever it was; returns this one."""
        self.tensors = {name: _on_host(part) for name, part in self.tensors.items()}
        return self

    @property
    def is_whole(self) -> bool:
        """Whether no tensor is in parts."""
        return all(isinstance(part, Tensor) for part in self.tensors.values())


def _on_host(part: Part) -> Part:
    if isinstance(part, Tensor):
        return part.cpu()
    return part if part.values.is_cpu else replace(part, values=part.values.cpu())


def memory_order(strides: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of a tensor without gaps as they lie in memory, from the farthest apart."""
    return tuple(sorted(range(len(strides)), key=lambda dimension: -strides[dimension]))


def elements(whole: Tensor, order: tuple[int, ...]) -> Tensor:
    """A tensor's elements in a row, counted with its dimensions in an order."""
    return whole.permute(order).reshape(-1)


def shaped(row: Tensor, shape: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
    """The tensor whose elements are in a row, counted with its dimensions in an order."""
    back = [0] * len(order)
    for place, dimension in enumerate(order):
        back[dimension] = place
    return row.view([shape[dimension] for dimension in order]).permute(back)


def cut(whole: Tensor, like: Slice) -> Tensor:
    """What of a whole tensor a slice of this form has; a copy."""
    return elements(whole, like.order)[like.start : like.start + like.values.numel()].clone()


def along(
    piece: Tensor, dimension: int, *, start: int, shape: tuple[int, ...], copy: bool = True
) -> Slice:
    """A piece along one dimension as a slice; `start` is where it begins in that dimension."""
    others = [one for one in range(len(shape)) if one != dimension]
    thickness = torch.Size(shape[one] for one in others).numel()
    values = piece.detach().movedim(dimension, 0)
    values = values.reshape(-1).clone() if copy else values
    return Slice(values, shape, (dimension, *others), start * thickness)


class Portion(NamedTuple):
    """What a rank has of a tensor: all of it, or a piece along one dimension."""

    #: Of the whole tensor.
    shape: tuple[int, ...]
    dimension: int = 0
    #: Where the piece begins in that dimension.
    start: int = 0

    def of(self, whole: Tensor, piece: Tensor) -> Tensor:
        """The portion of a whole tensor, as a view, as large as a piece."""
        if whole.dim() == 0:
            return whole
        return whole.narrow(self.dimension, self.start, piece.shape[self.dimension])


class Stored(Protocol):
    """A state outside of memory, of which each rank reads what is its own."""

    @property
    def values(self) -> dict[str, Any]:
        """Its plain values."""

    def names(self, prefix: str) -> list[str]:
        """The tensors whose names begin so."""

    def kind(self, name: str) -> tuple[tuple[int, ...], torch.dtype]:
        """The shape and the type of a tensor, which must be there."""

    def read(self, name: str) -> Tensor:
        """All of a tensor."""

    def read_into(self, name: str, piece: Tensor, portion: Portion) -> None:
        """Fill a piece with its portion of a tensor, without ever having the whole in memory."""
