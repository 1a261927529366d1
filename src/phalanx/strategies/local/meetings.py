"""How ranks that train alone come to the same weights again."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import final

from torch import nn

from phalanx.comm.base import Communicator
from phalanx.exchange.flat import FlatParameters
from phalanx.state import State

Names = Mapping[nn.Parameter, str]


class Meetings(ABC):
    """One rank's part in all meetings of a training."""

    @abstractmethod
    def part(self) -> None:
        """The ranks part from here: with the weights that they have now, whoever set them."""

    @abstractmethod
    def after(self, steps: int) -> bool:
        """Collective. What is due after so many steps of a round; whether all have met."""

    @abstractmethod
    def meet(self) -> None:
        """Collective. Give every rank the same weights, now."""

    @abstractmethod
    def state(self, names: Names) -> State:
        """Collective. What is kept from step to step, as a part of a training's state."""

    @abstractmethod
    def load(self, names: Names, state: State, *, own: State | None) -> None:
        """Collective. Go on from there, after the weights have been loaded; `own` is the state with
        what was this rank's own, if it is known."""

    @abstractmethod
    def close(self) -> None:
        """Collective. Give threads and communicators back."""


@final
class Mean(Meetings):
    """The mean of all ranks' weights, in place; nothing is kept."""

    def __init__(self, comm: Communicator, flat: FlatParameters, *, every: int) -> None:
        self._comm, self._every = comm, every
        self._values = [block.values for block in flat.blocks]

    def part(self) -> None:
        pass

    def after(self, steps: int) -> bool:
        if steps < self._every:
            return False
        self.meet()
        return True

    def meet(self) -> None:
        for values in self._values:
            self._comm.allreduce(values)
            values.div_(self._comm.size)

    def state(self, names: Names) -> State:
        return State()

    def load(self, names: Names, state: State, *, own: State | None) -> None:
        pass

    def close(self) -> None:
        pass
