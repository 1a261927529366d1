"""Buffers without fixed shards: what ranks' own samples make of them becomes the mean, every step.

BatchNorm's running statistics are the usual case. All ranks have the same ones after every step, so
that nobody who looks at them, for an evaluation or a checkpoint, changes what comes later; and a
rank that had no samples, or took another way through the model, has no say.
"""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.strategies.building_blocks.sharded_buffers import ShardedBuffers, numbers_of
from phalanx.strategies.building_blocks.whole_model import average_buffers, digest


@final
class RankBuffers:
    """All buffers of a model, as every rank's part of a batch leaves them."""

    def __init__(self, model: nn.Module, comm: Communicator, *, serving: int = 0) -> None:
        """The first `serving` ranks call no model, and take what the others have."""
        self._model, self._comm, self._serving = model, comm, serving
        self._owners = [_Owner(one) for one in model.modules() if any(True for _ in _own(one))]
        #: Those whose buffers any rank's part has ever changed, which all ranks know.
        self._moving: list[int] = []
        self.begin()

    def begin(self) -> None:
        """Remember what there is before a part."""
        self._before = [owner.versions() for owner in self._owners]
        self._values = {number: self._owners[number].copies() for number in self._moving}

    def record(self, part: int) -> None:
        """Nothing: a rank's next part goes on from there."""

    def finish(self, _batch_size: int) -> None:
        """Collective. Have everybody go on from the mean of those that changed something."""
        if self._comm.size == 1 or not self._owners:
            return
        with phase("exchange"), torch.no_grad():
            others = {one: self._others(one) for one in self._moving}
            changed = set() if self._serves else self._changed()
            changed.update(one for one, flags in others.items() if any(flags))
            self._bring_together(changed, others)

    def average(self) -> None:
        """Collective. The same for what passes change without anybody noticing, as layers can that
        call torch's `batch_norm` with buffers of their own."""
        average_buffers(self._comm, self._model, serving=self._serving)

    @property
    def _serves(self) -> bool:
        return self._comm.rank < self._serving

    def _changed(self) -> set[int]:
        pairs = enumerate(zip(self._before, self._owners, strict=True))
        return {number for number, (before, owner) in pairs if owner.versions() != before}

    def _others(self, number: int) -> list[bool]:
        owner = self._owners[number]
        if self._serves:
            return [False for _ in owner.statistics()]
        return owner.others_than(self._values[number])

    def _bring_together(self, changed: set[int], others: dict[int, list[bool]]) -> None:
        """`others` says which statistics have other values than before: the rest keeps its bits,
        which the mean of the same numbers may not have."""
        news = sorted(changed.difference(self._moving))
        votes = [flag for one in self._moving for flag in (one in changed, *others[one])]
        heads = torch.tensor([bool(news), *votes], dtype=torch.int64)
        self._comm.allreduce(heads)
        told, *counts = heads.tolist()
        if told:
            self._bring_together(changed, others | self._learn_of(news))
            return
        votes_of_all = iter(counts)
        statistics, counters = [], []
        for number in self._moving:
            count = next(votes_of_all)
            for buffer in self._owners[number].statistics():
                if next(votes_of_all):
                    statistics.append((buffer, number in changed, count))
            if count:
                counters += self._owners[number].counters()
        self._take_means(statistics)
        self._take_largest(counters)

    def _learn_of(self, news: list[int]) -> dict[int, list[bool]]:
        """Collective. Which statistics of owners that have changed for the first time differ
        between ranks: nobody has kept what they were before."""
        known = set(self._moving)
        found = sorted({one for some in self._comm.allgather_objects(news) for one in some} - known)
        self._moving = sorted({*known, *found})
        mine = [[digest(one) for one in self._owners[number].statistics()] for number in found]
        first, *rest = self._comm.allgather_objects(mine)
        return {
            number: [any(they[i][j] != one for they in rest) for j, one in enumerate(first[i])]
            for i, number in enumerate(found)
        }

    def _take_means(self, statistics: Sequence[tuple[Tensor, bool, int]]) -> None:
        """Each buffer becomes the mean of those that so many ranks bring."""
        if not statistics:
            return
        # In float64 even a few of the largest numbers of a smaller type do not add up to infinity.
        brought = [
            buffer.reshape(-1).to(torch.float64)
            if mine
            else buffer.new_zeros(buffer.numel(), dtype=torch.float64)
            for buffer, mine, _ in statistics
        ]
        total = torch.cat(brought)
        self._comm.allreduce(total)
        sums = torch.split(total, [len(one) for one in brought])
        for (buffer, _, count), sum_ in zip(statistics, sums, strict=True):
            buffer.copy_(sum_.div_(count).view(buffer.shape))

    def _take_largest(self, counters: Sequence[Tensor]) -> None:
        if not counters:
            return
        largest = torch.cat([one.reshape(-1).to(torch.int64) for one in counters])
        self._comm.allreduce(largest, "maximum")
        parts = torch.split(largest, [one.numel() for one in counters])
        for counter, part in zip(counters, parts, strict=True):
            counter.copy_(part.view(counter.shape))


Buffers = ShardedBuffers | RankBuffers


def make_buffers(
    model: nn.Module,
    comm: Communicator,
    *,
    shards: int | None,
    parts: Sequence[slice] | None = None,
    serving: int = 0,
) -> Buffers:
    """What brings the buffers of a model together: by fixed shards, or by ranks."""
    if shards is None:
        return RankBuffers(model, comm, serving=serving)
    return ShardedBuffers(model, comm, shards=shards, parts=parts)


class _Owner:
    """A module with buffers of its own."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def versions(self) -> list[Any]:
        """What any change changes: BatchNorm's counter tells of its statistics as well, of which
        torch itself does not."""
        return [(id(one), one._version) for one in _own(self._module)]

    def copies(self) -> list[Tensor]:
        """Of the statistics, as they are now."""
        return [one.clone() for one in self.statistics()]

    def others_than(self, copies: list[Tensor]) -> list[bool]:
        """Which statistics have other values than these."""
        pairs = zip(self.statistics(), copies, strict=True)
        return [not torch.equal(one, copy) for one, copy in pairs]

    def statistics(self) -> list[Tensor]:
        """The numbers of which there are means, in the memory of the buffers."""
        return [numbers_of(one) for one in _own(self._module) if _is_statistic(one)]

    def counters(self) -> list[Tensor]:
        """The whole numbers."""
        return [one.detach() for one in _own(self._module) if not _is_statistic(one)]


def _own(module: nn.Module) -> list[Tensor]:
    return [one for one in module._buffers.values() if one is not None and one.numel() > 0]


def _is_statistic(buffer: Tensor) -> bool:
    return buffer.is_floating_point() or buffer.is_complex()
