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
from phalanx.strategies.building_blocks.whole_model import average_buffers


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

    def record(self, part: int) -> None:
        """Nothing: a rank's next part goes on from there."""

    def finish(self, _batch_size: int) -> None:
        """Collective. Have everybody go on from the mean of those that changed something."""
        if self._comm.size == 1 or not self._owners:
            return
        with phase("exchange"), torch.no_grad():
            serves = self._comm.rank < self._serving
            self._bring_together(set() if serves else self._changed())

    def average(self) -> None:
        """Collective. The same for what passes change without anybody noticing, as layers can that
        call torch's `batch_norm` with buffers of their own."""
        average_buffers(self._comm, self._model, serving=self._serving)

    def _changed(self) -> set[int]:
        pairs = enumerate(zip(self._before, self._owners, strict=True))
        return {number for number, (before, owner) in pairs if owner.versions() != before}

    def _bring_together(self, changed: set[int]) -> None:
        news = sorted(changed.difference(self._moving))
        heads = torch.tensor([bool(news), *(one in changed for one in self._moving)], dtype=torch.int64)
        self._comm.allreduce(heads)
        told, *counts = heads.tolist()
        if told:
            everyone = self._comm.allgather_objects(news)
            self._moving = sorted({*self._moving, *(one for some in everyone for one in some)})
            return self._bring_together(changed)
        pairs = [pair for pair in zip(self._moving, counts, strict=True) if pair[1]]
        statistics = [
            (buffer, number in changed, count)
            for number, count in pairs
            for buffer in self._owners[number].statistics()
        ]
        self._take_means(statistics)
        self._take_largest([one for number, _ in pairs for one in self._owners[number].counters()])

    def _take_means(self, statistics: Sequence[tuple[Tensor, bool, int]]) -> None:
        """Each buffer becomes the mean of those that so many ranks bring."""
        if not statistics:
            return
        # In float64 even a few of the largest numbers of a smaller type do not add up to infinity.
        brought = [
            buffer.reshape(-1).to(torch.float64) if mine else buffer.new_zeros(buffer.numel(), dtype=torch.float64)
            for buffer, mine, _ in statistics
        ]
        total = torch.cat(brought)
        self._comm.allreduce(total)
        sums = total.split([len(one) for one in brought])
        for (buffer, _, count), sum_ in zip(statistics, sums, strict=True):
            buffer.copy_(sum_.div_(count).view(buffer.shape))

    def _take_largest(self, counters: Sequence[Tensor]) -> None:
        if not counters:
            return
        largest = torch.cat([one.reshape(-1).to(torch.int64) for one in counters])
        self._comm.allreduce(largest, "maximum")
        parts = largest.split([one.numel() for one in counters])
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
