"""Which operations all ranks have asked for, and whether they mean the same.

Every rank keeps the same table, because every rank sees the same rounds; so all of them come to the
same conclusions without talking about them. Nothing here communicates.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, final

from phalanx.horovod.requests import Description

#: Operations that a rank which has joined cannot stand in for with zeros.
_NEEDS_EVERYBODY = frozenset({"allgather", "broadcast", "alltoall", "reducescatter"})
_ZERO_MEANS_NOTHING = frozenset({"Average", "Sum", "Adasum"})


class Match(NamedTuple):
    """An operation that nobody is missing from any more."""

    name: str
    by_rank: dict[int, Description]
    #: The description of the first rank that has one.
    any: Description
    #: Why it cannot be carried out.
    error: str | None = None


@final
class Table:
    """What has been asked for and not been done yet; `members` are the ranks' numbers."""

    def __init__(self, members: Sequence[int]) -> None:
        self._members = members
        self._size = len(members)
        self._waiting: dict[str, dict[int, Description]] = {}
        self._touched: dict[str, None] = {}
        #: For each rank that has joined, when: a number that grows from round to round.
        self.joined: dict[int, int] = {}

    def add(self, rank: int, descriptions: Iterable[Description]) -> None:
        """Take in what a rank has newly asked for."""
        for description in descriptions:
            self._waiting.setdefault(description.name, {})[rank] = description
            self._touched[description.name] = None

    def join(self, rank: int, when: int) -> None:
        """From now on this rank brings nothing more."""
        if rank not in self.joined:
            self.joined[rank] = when
            self._touched = dict.fromkeys(self._waiting)

    def last_to_join(self) -> int | None:
        """Once all ranks have joined, the last one (the highest of several), else None."""
        if len(self.joined) < self._size:
            return None
        last = max(self.joined, key=lambda rank: (self.joined[rank], rank))
        return self._members[last]

    def ready(self) -> list[Match]:
        """Take out what nobody is missing from, in the order it came up, the same on all ranks."""
        matches = []
        for name in self._touched:
            by_rank = self._waiting[name]
            if len(by_rank) + len(self.joined.keys() - by_rank.keys()) == self._size:
                ordered = {rank: by_rank[rank] for rank in sorted(by_rank)}
                first = next(iter(ordered.values()))
                matches.append(Match(name, ordered, first, self._compare(ordered)))
                del self._waiting[name]
        self._touched = {}
        return matches

    def brought(self, name: str) -> set[int]:
        """The ranks that are known to have asked for an operation."""
        return set(self._waiting.get(name, ()))

    def conflicts(self) -> list[str]:
        """Names that every rank uses, but for different operations: 'x' of allreduce.x and
        broadcast.x."""
        ranks: dict[str, set[int]] = {}
        for name, by_rank in self._waiting.items():
            ranks.setdefault(_bare(name), set()).update(by_rank)
        everybody = set(range(self._size)) - self.joined.keys()
        return [bare for bare, found in ranks.items() if found >= everybody]

    def take_conflict(self, bare: str) -> list[Match]:
        """Take out the operations of such a name, each with the error it ends with."""
        if bare not in self.conflicts():
            return []
        names = [name for name in self._waiting if _bare(name) == bare]
        everyone = {rank: one for name in names for rank, one in self._waiting[name].items()}
        error = self._difference(everyone, lambda one: f"called {one.verb}", label=f"'{bare}'")
        taken = [(name, self._waiting.pop(name)) for name in names]
        matches = [Match(n, by_rank, next(iter(by_rank.values())), error) for n, by_rank in taken]
        self._touched = dict.fromkeys(name for name in self._touched if name in self._waiting)
        return matches

    def _compare(self, by_rank: dict[int, Description]) -> str | None:
        """Why an operation cannot be carried out as its ranks described it, or None."""
        first = next(iter(by_rank.values()))
        if len(by_rank) == self._size and all([one == first for one in by_rank.values()]):
            return None
        absent = [self._members[rank] for rank in range(self._size) if rank not in by_rank]
        if absent and first.verb in _NEEDS_EVERYBODY:
            return f"{first.name}: {name_ranks(absent)} joined, and {first.verb} needs every rank"
        if absent and first.verb == "allreduce" and first.op not in _ZERO_MEANS_NOTHING:
            return (
                f"{first.name}: {name_ranks(absent)} joined, and zeros change what {first.op} gives"
            )
        if first.verb == "open":
            return self._compare_parameters(by_rank)
        for feature in _features(first.verb):
            error = self._difference(by_rank, feature, label=first.name)
            if error is not None:
                return error
        return None

    def _compare_parameters(self, by_rank: dict[int, Description]) -> str | None:
        """The first difference between the parameters of the ranks' optimizers, or None."""
        name = next(iter(by_rank.values())).name.partition(".")[2]
        for index in range(max(len(one.shapes) for one in by_rank.values())):

            def parameter(one: Description, index: int = index) -> str:
                if index >= len(one.shapes):
                    return f"has only {len(one.shapes)} parameters"
                shape = list(one.shapes[index])
                return f"has '{one.details.names[index]}' {one.dtypes[index]}{shape}"

            error = self._difference(by_rank, parameter, label=f"{name}, parameter {index}")
            if error is not None:
                return error
        return self._difference(by_rank, lambda one: f"asked for {one.details.options}", label=name)

    def _difference(
        self, by_rank: dict[int, Description], feature: Callable[[Description], str], *, label: str
    ) -> str | None:
        found: dict[str, list[int]] = {}
        for rank, description in sorted(by_rank.items()):
            found.setdefault(feature(description), []).append(self._members[rank])
        if len(found) == 1:
            return None
        return f"{label}: " + ", ".join(f"{name_ranks(who)} {what}" for what, who in found.items())


def _features(verb: str) -> list[Callable[[Description], str]]:
    """What must be the same on all ranks, each as messages put it."""
    if verb in ("allgather", "alltoall"):
        return [_rows_apart]
    features: list[Callable[[Description], str]] = [_brought]
    if verb == "broadcast":
        features.append(lambda one: f"named root {one.root}")
    if verb in ("allreduce", "reducescatter"):
        features.append(lambda one: f"asked for {one.op}")
        features.append(lambda one: f"scaled by {one.prescale:g} and {one.postscale:g}")
    return features


def _brought(one: Description) -> str:
    return f"brought {one.brought()}"


def _rows_apart(one: Description) -> str:
    """As `_brought`, but the number of rows may differ."""
    shapes = (("", *map(str, shape[1:])) if shape else ("",) for shape in one.shapes)
    tensors = zip(one.dtypes, shapes, strict=True)
    return "brought " + ", ".join(f"{dtype}[rows{', '.join(shape)}]" for dtype, shape in tensors)


def _bare(name: str) -> str:
    return name.partition(".")[2]


def name_ranks(ranks: list[int]) -> str:
    """Ranks as messages name them."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
