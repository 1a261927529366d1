"""Process sets: some of the ranks, which carry out operations without the others."""

from collections.abc import Sequence
from itertools import count
from typing import final

from phalanx.errors import UsageError
from phalanx.horovod import context
from phalanx.horovod.engine import Engine


@final
class ProcessSet:
    """Some ranks, to be given to `hvd.init(process_sets=[…])` or `add_process_set` first."""

    def __init__(self, ranks: Sequence[int] | None = None) -> None:
        self._ranks = None if ranks is None else sorted(set(ranks))
        self.process_set_id: int | None = None if ranks is not None else 0
        self._numbers = count()

    @property
    def ranks(self) -> list[int]:
        """The ranks in it."""
        if self._ranks is None:
            return list(range(context.current().control.size))
        return list(self._ranks)

    def included(self) -> bool:
        """Whether this rank is in it."""
        self._number()
        return context.current().control.rank in self.ranks

    def size(self) -> int:
        """How many ranks are in it."""
        self._number()
        return len(self.ranks)

    def rank(self) -> int:
        """This rank's place in it."""
        return self.engine().comm.rank

    def engine(self) -> Engine:
        """What carries out its operations."""
        found = context.current().engines.get(self._number())
        if found is None:
            own = context.current().control.rank
            raise UsageError(f"rank {own} is not in the process set of ranks {self.ranks}")
        return found

    def next_number(self) -> int:
        """Numbers what its ranks make in the same order, from 0."""
        return next(self._numbers)

    def _number(self) -> int:
        if self.process_set_id is None:
            raise UsageError(
                f"{self} is not known yet: give it to hvd.init(process_sets=[…]) or to "
                "hvd.add_process_set, on all ranks"
            )
        return self.process_set_id

    def __repr__(self) -> str:
        ranks = "all ranks" if self._ranks is None else f"ranks={self._ranks}"
        return f"ProcessSet(process_set_id={self.process_set_id}, {ranks})"


#: All ranks.
global_process_set = ProcessSet()
_added: list[ProcessSet] = []


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Collective over all ranks. Make a process set, or one of these ranks, usable."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise UsageError(f"{process_set} was added before")
    ranks, size = process_set.ranks, context.current().control.size
    if not ranks or ranks[0] < 0 or ranks[-1] >= size:
        raise UsageError(f"a process set has ranks from 0 to {size - 1}, not {ranks}")
    if any(one.ranks == ranks for one in (global_process_set, *_added)):
        raise UsageError(f"there is a process set of ranks {ranks} already")
    process_set.process_set_id = context.current().add(ranks)
    _added.append(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Collective over all ranks. Whether the process set was one that could be removed."""
    if process_set not in _added:
        return False
    assert process_set.process_set_id is not None
    context.current().remove(process_set.process_set_id)
    _forget(process_set)
    return True


def forget_all() -> None:
    """After a shutdown no process set is known."""
    for process_set in list(_added):
        _forget(process_set)


def _forget(process_set: ProcessSet) -> None:
    _added.remove(process_set)
    process_set.process_set_id = None
