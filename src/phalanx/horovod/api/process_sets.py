"""Process sets: some of the ranks, which carry out operations without the others."""

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, final

from phalanx.comm.members import is_communicator, ranks_within
from phalanx.errors import UsageError
from phalanx.horovod.engine import context
from phalanx.horovod.engine.engine import Engine


@final
class ProcessSet:
    """Some ranks, to be given to `hvd.init(process_sets=[…])` or `add_process_set` first.

    They are a list, or those of a communicator: mpi4py's, or one of Phalanx.
    """

    def __init__(self, ranks: Any = None) -> None:
        #: Whose ranks are to be found out, when it is known among whom.
        self._comm = ranks if is_communicator(ranks) else None
        self._ranks = None if ranks is None or self._comm is not None else _sorted(ranks)
        self.process_set_id: int | None = None if ranks is not None else 0

    @property
    def ranks(self) -> list[int]:
        """The ranks in it."""
        if self._ranks is not None:
            return list(self._ranks)
        self._number()
        return list(range(context.current().control.size))

    def find_ranks(self) -> list[int]:
        """The ranks in it, which must be ranks of this job."""
        everyone = context.current().control
        if self._comm is not None:
            self._ranks = sorted(ranks_within(self._comm, everyone))
        ranks = self.ranks
        if not ranks or ranks[0] < 0 or ranks[-1] >= everyone.size:
            raise UsageError(f"a process set has ranks from 0 to {everyone.size - 1}, not {ranks}")
        return ranks

    def become(self, known: "ProcessSet") -> None:
        """From now on be the same process set as one of the same ranks that is known."""
        self.process_set_id = known.process_set_id

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

    def _number(self) -> int:
        if self.process_set_id is None:
            raise UsageError(
                f"{self} is not known yet: give it to hvd.init(process_sets=[…]) or to "
                "hvd.add_process_set, on all ranks"
            )
        return self.process_set_id

    def __repr__(self) -> str:
        everyone = "all ranks" if self._comm is None else "a communicator's ranks"
        ranks = everyone if self._ranks is None else f"ranks={self._ranks}"
        return f"ProcessSet(process_set_id={self.process_set_id}, {ranks})"


def _sorted(ranks: Iterable[int]) -> list[int]:
    try:
        return sorted({index(rank) for rank in ranks})
    except TypeError:
        raise UsageError(
            f"a process set takes a list of ranks or a communicator, not {ranks!r}"
        ) from None


#: All ranks.
global_process_set = ProcessSet()
_added: list[ProcessSet] = []


def as_process_set(given: ProcessSet | Sequence[int]) -> ProcessSet:
    """What was given, if it is a process set; else one of these ranks."""
    return given if isinstance(given, ProcessSet) else ProcessSet(given)


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Collective over all ranks. Make a process set, or one of these ranks, usable."""
    process_set = as_process_set(process_set)
    if process_set.process_set_id is not None:
        raise UsageError(
            f"Attempted to add a duplicate process set: {process_set} was added before"
        )
    ranks = process_set.find_ranks()
    if any(one.ranks == ranks for one in (global_process_set, *_added)):
        raise UsageError(
            f"Attempted to add a duplicate process set: there is a process set of ranks {ranks} "
            "already"
        )
    process_set.process_set_id = context.current().add(ranks)
    _added.append(process_set)
    return process_set


def add_static_process_sets(process_sets: Sequence[ProcessSet]) -> None:
    """Collective over all ranks. Make all usable that any rank brings; ranks may bring different
    ones, as those do who have split a communicator.

    They are numbered in the order of the ranks that bring them. Some of the same ranks are one.
    """
    everyone = context.current().control.allgather_objects(_brought(process_sets))
    for rank, (_, problem) in enumerate(everyone):
        if problem is not None:  # said everywhere, so that no rank waits for one that gave up
            raise UsageError(f"process_sets of rank {rank}: {problem}")
    known = {tuple(global_process_set.ranks): global_process_set}
    for ranks in (ranks for brought, _ in everyone for ranks in brought):
        if tuple(ranks) not in known:
            known[tuple(ranks)] = add_process_set(ranks)
    for process_set in process_sets:
        if process_set.process_set_id is None:
            process_set.become(known[tuple(process_set.ranks)])
            _added.append(process_set)


def _brought(process_sets: Sequence[ProcessSet]) -> tuple[list[list[int]], str | None]:
    """The ranks of each, or what is wrong with them."""
    try:
        return [one.find_ranks() for one in process_sets], None
    except UsageError as error:
        return [], str(error)


def remove_process_set(process_set: ProcessSet) -> bool:
    """Collective over all ranks. Whether the process set was one that could be removed."""
    number = process_set.process_set_id
    if number is None or number == global_process_set.process_set_id or process_set not in _added:
        return False
    context.current().remove(number)
    for one in [one for one in _added if one.process_set_id == number]:
        _forget(one)
    return True


def forget_all() -> None:
    """After a shutdown no process set is known."""
    for process_set in list(_added):
        _forget(process_set)


def _forget(process_set: ProcessSet) -> None:
    _added.remove(process_set)
    process_set.process_set_id = None
