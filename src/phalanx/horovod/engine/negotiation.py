"""Which operations all ranks have asked for, and whether they mean the same.

Every rank keeps the same table, because every rank sees the same rounds; so all of them come to the
same conclusions without talking about them. Nothing here communicates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, final

from phalanx.horovod.engine.requests import Description

#: Operations that a rank which has joined cannot stand in for with zeros.
_NEEDS_EVERYBODY = frozenset({"allgather", "broadcast", "alltoall", "reducescatter"})
_ZERO_MEANS_NOTHING = frozenset({"Average", "Sum", "Adasum"})
#: What all `open`s count as the name of: a rank that waits in one takes part in no other.
_OPENINGS = "DistributedOptimizer"


class Match(NamedTuple):
    """An operation that nobody is missing from any more."""

    name: str
    by_rank: dict[int, Description]
    #: The description of the first rank that has one.
    any: Description
    #: Why it cannot be carried out.
    error: str | None = None


@final
class Negotiations:
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
        if bare == _OPENINGS:
            error = self._compare_parameters(everyone, label=bare) or self._difference(
                everyone, lambda one: f"stepped {_bare_name(one.name)}", label=bare
            )
        else:
            error = self._difference(everyone, lambda one: f"called {one.verb}", label=f"'{bare}'")
        return [self._take(name, error) for name in names]

    def take_left_behind(self, watchers: Mapping[str, Mapping[int, int]]) -> list[Match]:
        """Take out each `open` of ranks that all others wait for in the channel before: neither
        would ever come to the other. `watchers`: who waits, and in which step, by channel."""
        matches, everybody = [], set(range(self._size))
        for name, by_rank in list(self._waiting.items()):
            first = next(iter(by_rank.values()))
            if first.verb != "open":
                continue
            before = first.details.before
            steps = min(one.details.steps for one in by_rank.values())
            behind = [rank for rank, step in watchers.get(before, {}).items() if step > steps]
            if behind and {*by_rank, *behind, *self.joined} >= everybody:
                changed, not_changed = (
                    name_ranks([self._members[rank] for rank in sorted(ranks)])
                    for ranks in (by_rank, behind)
                )
                error = (
                    f"{before.rpartition('.')[0]}: the parameters to exchange changed on {changed} "
                    f"but not on {not_changed}: set requires_grad, dtypes and parameter groups "
                    "alike on all ranks"
                )
                matches += [self._take(name, error), Match(f"{before}.step", {}, first, error)]
        return matches

    def _take(self, name: str, error: str | None) -> Match:
        by_rank = self._waiting.pop(name)
        self._touched.pop(name, None)
        return Match(name, by_rank, next(iter(by_rank.values())), error)

    def _compare(self, by_rank: dict[int, Description]) -> str | None:
        """Why an operation cannot be carried out as its ranks described it, or None."""
        first = next(iter(by_rank.values()))
        alike = len(by_rank) == self._size and all([one == first for one in by_rank.values()])
        if alike and not first.refused:
            return None
        refusals = {rank: one.refused for rank, one in by_rank.items() if one.refused}
        if refusals:
            told = [f"rank {self._members[rank]}: {why}" for rank, why in refusals.items()]
            return f"{first.name} was refused on {'; on '.join(told)}"
        absent = [self._members[rank] for rank in range(self._size) if rank not in by_rank]
        if absent and first.verb in _NEEDS_EVERYBODY:
            return f"{first.name}: {name_ranks(absent)} joined, and {first.verb} needs every rank"
        if absent and first.verb == "allreduce" and first.op not in _ZERO_MEANS_NOTHING:
            return (
                f"{first.name}: {name_ranks(absent)} joined, and zeros change what {first.op} gives"
            )
        if first.verb == "open":
            return self._compare_parameters(by_rank, label=_bare_name(first.name))
        for feature in _features(first.verb):
            error = self._difference(by_rank, feature, label=first.name)
            if error is not None:
                return error
        return None

    def _compare_parameters(self, by_rank: dict[int, Description], *, label: str) -> str | None:
        """The first difference between the parameters of the ranks' optimizers, or None."""
        looks = {
            id(one): dict(
                zip(one.details.names, zip(one.dtypes, one.shapes, strict=True), strict=True)
            )
            for one in by_rank.values()
        }
        names = dict.fromkeys(name for look in looks.values() for name in look)
        for index, name in enumerate(names):

            def parameter(one: Description, name: str = name) -> str:
                if name not in looks[id(one)]:
                    return f"has no '{name}'"
                dtype, shape = looks[id(one)][name]
                return f"has '{name}' {dtype}{list(shape)}"

            error = self._difference(by_rank, parameter, label=f"{label}, parameter {index}")
            if error is not None:
                return error
        return self._difference(
            by_rank, lambda one: f"asked for {one.details.options}", label=label
        )

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
    """What operations of different kinds must not share."""
    return _OPENINGS if name.startswith("open.") else _bare_name(name)


def _bare_name(name: str) -> str:
    return name.partition(".")[2]


def name_ranks(ranks: list[int]) -> str:
    """Ranks as messages name them."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
