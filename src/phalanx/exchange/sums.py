"""Sums over all ranks, in steps, so that a backward pass may go on while they are under way."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, final

import torch
from torch import Tensor

from phalanx.comm.base import Call, Communicator, Request


class Sum(ABC):
    """A tensor that is summed over all ranks, in place, once a step.

    Between `start` and the end of `finish` nobody else may touch it. MPI wants all ranks to begin
    their collective operations in the same order, and every method but `test` may begin one.
    """

    tensor: Tensor
    #: How often `turn` follows on a `start` before `finish` does, under a `Stream`.
    turns: int = 0
    #: How many of these turns are to be taken before the next sum starts.
    turns_at_once: int = 0
    #: Whether MPI must be called now and then to get on between `start` and `finish`.
    needs_progress: ClassVar[bool] = False

    @abstractmethod
    def start(self) -> None:
        """Collective. Begin, without waiting for anybody."""

    @abstractmethod
    def test(self) -> bool:
        """Whether what was begun last is done here. Also lets it make progress."""

    @abstractmethod
    def turn(self) -> None:
        """Collective. Begin what can only follow on a first half that is done."""

    @abstractmethod
    def finish(self) -> None:
        """Collective. Wait until the tensor holds the sum."""


@final
class BlockingSum(Sum):
    """One MPI_Allreduce, at the end."""

    def __init__(self, comm: Communicator, tensor: Tensor) -> None:
        self.tensor = tensor
        self._sum = comm.prepare(Call("allreduce", receive=tensor, op="sum"))

    def start(self) -> None:
        pass

    def test(self) -> bool:
        return True

    def turn(self) -> None:
        pass

    def finish(self) -> None:
        self._sum()


@final
class StartedSum(Sum):
    """One MPI_Iallreduce, in the tensor's dtype or in another one."""

    needs_progress = True

    def __init__(
        self,
        comm: Communicator,
        tensor: Tensor,
        *,
        wire: torch.dtype | None = None,
        divisor: float = 1.0,
    ) -> None:
        """`wire`: the dtype that travels, if not the tensor's; sums are divided by `divisor`."""
        self.tensor = tensor
        self._divisor = divisor
        as_it_is = wire is None or wire is tensor.dtype
        self._wire = tensor if as_it_is else torch.zeros_like(tensor, dtype=wire)
        self._begin = comm.prepare_start(Call("allreduce", receive=self._wire, op="sum"))
        self._request: Request
        self._done = False

    def start(self) -> None:
        if self._wire is not self.tensor:
            self._wire.copy_(self.tensor)
        self._done = False
        self._request = self._begin()

    def test(self) -> bool:
        self._done = self._done or self._request.test()
        return self._done

    def turn(self) -> None:
        pass

    def finish(self) -> None:
        if not self._done:
            self._request.wait()
        if self._wire is not self.tensor:
            self.tensor.copy_(self._wire)
        if self._divisor != 1.0:
            self.tensor.div_(self._divisor)


@final
class Sums:
    """Several sums that every rank starts one after the other, in their order, step after step.

    First halves all start before any second half does: when a rank finds that a first one is done
    is a matter of luck, and the order must not be.
    """

    def __init__(self, sums: Sequence[Sum]) -> None:
        self._sums = sums
        #: How many this rank has started in the step that is not over.
        self.started = 0
        self._turned = 0
        self._finished = 0
        self._steps_over = 0

    @property
    def tensors(self) -> list[Tensor]:
        """What is summed."""
        return [one.tensor for one in self._sums]

    @property
    def steps(self) -> int:
        """The steps that this rank has begun so far."""
        return self._steps_over + (self.started > 0)

    @property
    def started_ever(self) -> int:
        """How many this rank has started in all steps so far."""
        return self._steps_over * len(self._sums) + self.started

    def start_next(self) -> bool:
        """Collective. Start the first that has not been; whether MPI has work from now on."""
        one = self._sums[self.started]
        one.start()
        self.started += 1
        # Behind the last one comes no computation, but somebody who waits, and calls MPI for it.
        return one.needs_progress and self.started < len(self._sums)

    def start_next_with_zeros(self) -> None:
        """Collective. The same for a rank that has nothing to bring."""
        self._sums[self.started].tensor.zero_()
        self.start_next()

    def test(self) -> bool:
        """Whether all that were started are done. Also lets them make progress; never waits."""
        if self.started < len(self._sums):
            return all(one.test() for one in self._sums[: self.started])
        for one in self._sums[self._turned :]:
            if not one.test():
                return False
            one.turn()
            self._turned += 1
        for one in self._sums[self._finished :]:
            if not one.test():
                return False
            one.finish()
            self._finished += 1
        self._end_step()
        return True

    def finish(self) -> None:
        """Collective. Start those that have not been, and wait for all."""
        while self.started < len(self._sums):
            self.start_next()
        for one in self._sums[self._turned :]:
            one.turn()
        for one in self._sums[self._finished :]:
            one.finish()
        self._end_step()

    def _end_step(self) -> None:
        if self.started:
            self._steps_over += 1
        self.started = self._turned = self._finished = 0
