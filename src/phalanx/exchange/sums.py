"""Sums over all ranks, in steps, so that a backward pass may go on while they are under way."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

from torch import Tensor

from phalanx.comm.base import Communicator, Request


class Exchange(ABC):
    """A tensor that is summed over all ranks, in place, once a step.

    Between `start` and the end of `finish` nobody else may touch it. MPI wants all ranks to begin
    their collective operations in the same order, and every method may begin one.
    """

    @abstractmethod
    def start(self) -> None:
        """Collective. Begin, without waiting for anybody."""

    @abstractmethod
    def turn(self) -> None:
        """Collective. Begin what can only follow on a first half that is done."""

    @abstractmethod
    def finish(self) -> None:
        """Collective. Wait until the tensor holds the sum."""


@final
class BlockingSum(Exchange):
    """One MPI_Allreduce, at the end."""

    def __init__(self, comm: Communicator, tensor: Tensor) -> None:
        self._comm = comm
        self._tensor = tensor

    def start(self) -> None:
        pass

    def turn(self) -> None:
        pass

    def finish(self) -> None:
        self._comm.allreduce(self._tensor)


@final
class StartedSum(Exchange):
    """One MPI_Iallreduce."""

    def __init__(self, comm: Communicator, tensor: Tensor) -> None:
        self._comm = comm
        self._tensor = tensor
        self._request: Request

    def start(self) -> None:
        self._request = self._comm.iallreduce(self._tensor)

    def turn(self) -> None:
        pass

    def finish(self) -> None:
        self._request.wait()


@final
class Exchanges:
    """Several exchanges that every rank starts one after the other, in their order."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._exchanges = exchanges
        self.started = 0

    def start_next(self) -> None:
        """Collective. Start the first one that has not been."""
        self._exchanges[self.started].start()
        self.started += 1

    def finish(self) -> None:
        """Collective. Start those that have not been, and wait for all."""
        while self.started < len(self._exchanges):
            self.start_next()
        for exchange in self._exchanges:
            exchange.turn()
        for exchange in self._exchanges:
            exchange.finish()
        self.started = 0
