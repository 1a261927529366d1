"""A trial of every verb of a communicator, blocking and started, with few numbers and with many."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from phalanx.comm.base import Communicator

#: A trial of so many numbers for each rank; whether they came out right here.
_Trial = Callable[["_Ranks", int], bool]
_SIZES = (3, 50_000)


class _Ranks:
    """The ranks of a trial, and how verbs are called in it."""

    def __init__(self, comm: Communicator, *, started: bool) -> None:
        self.rank, self.size = comm.rank, comm.size
        self._comm, self._started = comm, started

    def do(self, verb: str, *args: Any, **more: Any) -> None:
        """Carry out a verb, in the form of this trial."""
        if self._started:
            getattr(self._comm, f"i{verb}")(*args, **more).wait()
        else:
            getattr(self._comm, verb)(*args, **more)

    def everyone(self, count: int) -> Tensor:
        """What ranks bring, one after the other: r + 1 from rank r, so many times."""
        return torch.arange(1.0, self.size + 1).repeat_interleave(count)

    def mine(self, count: int) -> Tensor:
        """What this one brings."""
        return torch.full((count,), self.rank + 1.0)

    @property
    def sum(self) -> float:
        """Of what all bring."""
        return self.size * (self.size + 1) / 2


def _broadcast(ranks: _Ranks, count: int) -> bool:
    root = ranks.size - 1
    numbers = ranks.mine(count)
    ranks.do("broadcast", numbers, root)
    return bool((numbers == root + 1).all())


def _reduce(ranks: _Ranks, count: int) -> bool:
    numbers = ranks.mine(count)
    ranks.do("reduce", numbers, 0)
    return bool((numbers == (ranks.sum if ranks.rank == 0 else ranks.rank + 1)).all())


def _allreduce(ranks: _Ranks, count: int) -> bool:
    numbers, largest = ranks.mine(count), ranks.mine(count)
    ranks.do("allreduce", numbers)
    ranks.do("allreduce", largest, "maximum")
    return bool((numbers == ranks.sum).all() and (largest == ranks.size).all())


def _reduce_scatter(ranks: _Ranks, count: int) -> bool:
    part = torch.zeros(count)
    ranks.do("reduce_scatter", ranks.everyone(count), part)
    return bool((part == ranks.size * (ranks.rank + 1)).all())


def _scatter(ranks: _Ranks, count: int) -> bool:
    part = torch.zeros(count)
    ranks.do("scatter", ranks.everyone(count) if ranks.rank == 0 else None, part)
    return bool((part == ranks.rank + 1).all())


def _gather(ranks: _Ranks, count: int) -> bool:
    whole = torch.zeros(ranks.size * count) if ranks.rank == 0 else None
    ranks.do("gather", ranks.mine(count), whole)
    return whole is None or torch.equal(whole, ranks.everyone(count))


def _allgather(ranks: _Ranks, count: int) -> bool:
    whole = torch.zeros(ranks.size * count)
    ranks.do("allgather", ranks.mine(count), whole)
    return torch.equal(whole, ranks.everyone(count))


def _all_to_all(ranks: _Ranks, count: int) -> bool:
    received = torch.zeros(ranks.size * count)
    ranks.do("all_to_all", (ranks.rank + 1) * ranks.everyone(count), received)
    return torch.equal(received, (ranks.rank + 1) * ranks.everyone(count))


def _send_and_receive(ranks: _Ranks, count: int) -> bool:
    """There and back between the first rank and every other one."""
    if ranks.rank == 0:
        right = True
        for other in range(1, ranks.size):
            numbers = ranks.mine(count)
            ranks.do("send", numbers, other)
            ranks.do("receive", numbers, other)
            right = right and bool((numbers == other + 1).all())
        return right
    numbers = torch.zeros(count)
    ranks.do("receive", numbers, 0)
    ranks.do("send", numbers + ranks.rank, 0)
    return bool((numbers == 1).all())


def _barrier(ranks: _Ranks, _count: int) -> bool:
    ranks.do("barrier")
    return True


def _in_all_forms(trial: _Trial) -> Callable[[Communicator], bool]:
    def carry_out(comm: Communicator) -> bool:
        forms = [_Ranks(comm, started=started) for started in (False, True)]
        return all([trial(ranks, count) for ranks in forms for count in _SIZES])

    return carry_out


#: By what they are called. Collective: each returns whether all came out right on this rank.
TRIALS: dict[str, Callable[[Communicator], bool]] = {
    "barrier": _in_all_forms(_barrier),
    "broadcast": _in_all_forms(_broadcast),
    "reduce": _in_all_forms(_reduce),
    "allreduce": _in_all_forms(_allreduce),
    "reduce_scatter": _in_all_forms(_reduce_scatter),
    "scatter": _in_all_forms(_scatter),
    "gather": _in_all_forms(_gather),
    "allgather": _in_all_forms(_allgather),
    "all_to_all": _in_all_forms(_all_to_all),
    "send and receive": _in_all_forms(_send_and_receive),
}
