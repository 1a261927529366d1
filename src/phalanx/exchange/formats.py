"""How numbers travel: formats that take fewer bytes than the numbers themselves.

`compressions.py` has them by the names that `--compress` gets.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor


class Format(ABC):
    """Packs some thousand numbers at a time, of one dtype and few enough to stay in a cache."""

    #: Whether what packing loses is added to the next step's numbers. It takes as much memory as
    #: the gradient, and a pass over it.
    feedback: ClassVar[bool] = True

    @abstractmethod
    def room(self, count: int) -> int:
        """The bytes that so many numbers take."""

    @abstractmethod
    def pack(self, values: Tensor, packed: Tensor) -> None:
        """Pack numbers into so many bytes. With `feedback`, `values` become what that has lost; of
        numbers that are infinite, or none, nothing is to be left: it would spoil all steps to come.
        """

    @abstractmethod
    def unpack(self, packed: Tensor, values: Tensor) -> None:
        """The numbers, into `values`. What was infinite or no number must not be finite again."""
