"""A server's book: which parts of which batches were handed out and applied, and how stale."""

from collections import Counter
from dataclasses import dataclass
from typing import final

from phalanx.strategies.base import TextTable

#: The answer to a worker that asks for a part of a batch when all are handed out.
NONE_LEFT = -1
#: A table of more rows than this puts some of them together.
_MOST_ROWS = 16


@dataclass
class _Batch:
    parts: int
    handed_out: int = 0
    applied: int = 0


@final
class Assignments:
    """Hands out parts in order, no more than `lead` batches ahead of the first unfinished one.

    Workers ask for parts of each batch, one batch after the other.
    """

    def __init__(self, *, lead: int) -> None:
        self._lead = lead
        self._finished = 0  # so many batches, from the first on, are applied in full
        self._open: dict[int, _Batch] = {}

    def begin(self, number: int) -> None:
        """The next batch that is asked for is this one; everything before is applied."""
        assert self.settled, "a part that was handed out has not come back"
        self._finished = number

    @property
    def settled(self) -> bool:
        """Whether everything handed out has been applied."""
        return not self._open

    def hand_out(self, number: int, *, parts: int) -> int | None:
        """The next part of a batch that has so many; NONE_LEFT; or None: it is too early to say."""
        if number < self._finished:
            return NONE_LEFT
        batch = self._open.setdefault(number, _Batch(parts))
        if batch.handed_out == batch.parts:
            self._finish()  # a batch without samples is finished before it has begun
            return NONE_LEFT
        if number > self._finished + self._lead:
            return None
        batch.handed_out += 1
        return batch.handed_out - 1

    def apply(self, number: int) -> None:
        """Note that one more part of a batch has been applied."""
        batch = self._open[number]
        assert batch.applied < batch.handed_out, "a part that was not handed out"
        batch.applied += 1
        self._finish()

    def _finish(self) -> None:
        while (batch := self._open.get(self._finished)) and batch.applied == batch.parts:
            del self._open[self._finished]
            self._finished += 1


@final
class StalenessRecord:
    """How stale the updates were, and who computed them."""

    def __init__(self) -> None:
        self._staleness: Counter[int] = Counter()
        self._parts: Counter[int] = Counter()

    def add(self, *, rank: int, staleness: int) -> None:
        """Count an update."""
        self._staleness[staleness] += 1
        self._parts[rank] += 1

    def tables(self, ranks: range) -> tuple[TextTable, TextTable]:
        """The updates by staleness, and by the rank that computed them."""
        total = max(1, self._staleness.total())
        width = 1 + max(self._staleness, default=0) // _MOST_ROWS
        grouped: Counter[int] = Counter()
        for staleness, updates in self._staleness.items():
            grouped[staleness // width] += updates
        stale = [
            (_span(group * width, width), str(grouped[group]), f"{grouped[group] / total:.1%}")
            for group in sorted(grouped)
        ]
        shares = [
            (str(rank), str(self._parts[rank]), f"{self._parts[rank] / total:.1%}")
            for rank in ranks
        ]
        return (
            TextTable("Staleness", ("staleness", "updates", "share"), tuple(stale)),
            TextTable("Parts", ("rank", "parts", "share"), tuple(shares)),
        )


def _span(first: int, width: int) -> str:
    return str(first) if width == 1 else f"{first}–{first + width - 1}"
