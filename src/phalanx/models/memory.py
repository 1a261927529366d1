"""Pieces of memory, and the operations that wrote them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, UntypedStorage


class Place(NamedTuple):
    """A tensor as a view of some memory, by the number of that memory."""

    memory: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def view(self, storage: UntypedStorage) -> Tensor:
        """The tensor, if its memory is this."""
        empty = torch.empty(0, dtype=self.dtype, device=storage.device)
        return empty.set_(storage, self.offset, self.size, self.stride)


@final
@dataclass(eq=False)
class Memory:
    """A piece of memory that tensors are views of, and who wrote it, in their order."""

    storage: UntypedStorage
    size: int
    #: Whether it was there before anything was recorded: it is not made again, but kept.
    is_given: bool
    #: What was given, if that was changed afterwards.
    before: UntypedStorage | None = None
    writers: list[int] = field(default_factory=list)

    @property
    def given(self) -> UntypedStorage:
        """What it was at first."""
        return self.storage if self.before is None else self.before

    @property
    def is_held(self) -> bool:
        """Whether any tensor is still a view of it, besides this record."""
        count: int = torch._C._storage_Use_Count(self.storage._cdata)
        return count > 1


@final
@dataclass(frozen=True, eq=False)
class Operation:
    """What was done, to be done again."""

    function: Callable[..., Any]
    #: Its arguments, with places for tensors.
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    reads: frozenset[int]
    #: The places of what it returned.
    outputs: tuple[Any, ...]
    #: Which of the record's random states it began with; None if it draws nothing.
    random: int | None
