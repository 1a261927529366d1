"""Where samples come from when they are not a tensor in memory: files, or a formula."""

from abc import ABC, abstractmethod
from typing import final

from torch import Tensor


class Source(ABC):
    """Inputs that are fetched when they are asked for, in constant memory.

    Every rank has one of its own, and asks it for the samples of its own parts alone.
    """

    #: The shape of one sample.
    shape: tuple[int, ...]
    #: Whether samples that cannot be read are to be left out, once all ranks have looked for them.
    skips_unreadable: bool = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: Tensor) -> Tensor:
        """The samples at `indices` as they are stored, in memory of their own.

        The next batch's are taken in a thread while a batch is trained on.
        """

    def unreadable(self, indices: Tensor) -> dict[int, str]:
        """Those of `indices` that `take` would fail on, each with the cause."""
        return {}


@final
class Picked(Source):
    """Some samples of another source."""

    def __init__(self, source: Source, indices: Tensor) -> None:
        self.shape = source.shape
        self.skips_unreadable = source.skips_unreadable
        self._source = source
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def take(self, indices: Tensor) -> Tensor:
        return self._source.take(self._indices[indices])

    def unreadable(self, indices: Tensor) -> dict[int, str]:
        theirs = self._indices[indices]
        found = self._source.unreadable(theirs)
        pairs = zip(indices.tolist(), theirs.tolist(), strict=True)
        return {ours: found[there] for ours, there in pairs if there in found}
