"""What is done in another way with a model that no rank has as a whole."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from phalanx.state.parts import Stored


@dataclass(frozen=True)
class Copy:
    """One of the copies of a model that the ranks hold, each over its own ranks."""

    number: int
    of: int


class ModelParts(ABC):
    """A rank's part of a model."""

    #: The copy of the model that this rank has a part of.
    copy: Copy

    @abstractmethod
    def outputs(self, inputs: Any) -> Tensor | None:
        """Collective over the ranks of a copy, which bring the same inputs: what the model makes of
        them, on one of these ranks, and None on the others."""

    @abstractmethod
    def read(self, stored: Stored) -> None:
        """Read this rank's part of a state."""
