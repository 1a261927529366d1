"""Where samples come from when they are not a tensor in memory: files, or a formula."""

from abc import ABC, abstractmethod
from typing import final

from torch import Tensor

from phalanx.comm.base import Communicator

#: What a user can do about samples that cannot be read.
WAY_OUT = "replace it, or leave out all such files by --skip-bad"


class Source(ABC):
    """Inputs that are fetched when they are asked for, in constant memory.

    Every rank has one of its own, and asks it for the samples of its own parts alone.
    """

    #: The shape of one sample.
    shape: tuple[int, ...]
    #: Whether samples that cannot be read are to be left out, once all ranks have looked for them.
    skips_unreadable: bool = False
    #: Whether ranks are sent it by the first of their host, rather than make it for themselves.
    is_sent: bool = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: Tensor) -> Tensor:
        """The samples at `indices` as they are stored, in memory of their own.

        The next batch's are taken in a thread while a batch is trained on, if that takes a while.
        """

    def unreadable(self, indices: Tensor) -> dict[int, str]:
        """Those of `indices` that `take` would fail on, each with the cause."""
        return {}

    def misfits(self, indices: Tensor) -> dict[int, str]:
        """Those of `indices` that are seen to be none at a glance, each with the cause.

        That takes little time, and so need not be all that `take` would fail on.
        """
        return {}

    def files(self, indices: Tensor) -> list[str] | None:
        """The files of the samples at `indices`, if each has one of its own."""
        return None

    def share(self, host: Communicator) -> None:  # noqa: B027 (nothing to do, if nothing is kept)
        """Collective over the ranks of a host. Have what is kept of samples be there once."""


@final
class Picked(Source):
    """Some samples of another source."""

    def __init__(self, source: Source, indices: Tensor) -> None:
        self.shape = source.shape
        self.skips_unreadable, self.is_sent = source.skips_unreadable, source.is_sent
        self._source = source
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def take(self, indices: Tensor) -> Tensor:
        return self._source.take(self._indices[indices])

    def unreadable(self, indices: Tensor) -> dict[int, str]:
        return self._ours(indices, self._source.unreadable(self._indices[indices]))

    def misfits(self, indices: Tensor) -> dict[int, str]:
        return self._ours(indices, self._source.misfits(self._indices[indices]))

    def files(self, indices: Tensor) -> list[str] | None:
        return self._source.files(self._indices[indices])

    def share(self, host: Communicator) -> None:
        self._source.share(host)

    def _ours(self, indices: Tensor, found: dict[int, str]) -> dict[int, str]:
        """What was found about samples of the other source, by their indices here."""
        pairs = zip(indices.tolist(), self._indices[indices].tolist(), strict=True)
        return {ours: found[there] for ours, there in pairs if there in found}
