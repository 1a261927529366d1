"""Buffers under fixed shards: every shard starts from the same, and their mean comes next.

BatchNorm's running statistics are the usual case. Without fixed shards, `RankBuffers` do the same
by ranks.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.data.batches import cut


class ShardedBuffers:
    """All buffers of a model, shard by shard; what no shard changes stays as it is.

    Statistics are kept as float64, which holds any smaller type exactly, and averaged in the
    shards' order: the same bits on any number of ranks. Of whole numbers, which are counters, the
    largest is taken.
    """

    def __init__(
        self,
        model: nn.Module,
        comm: Communicator,
        *,
        shards: int,
        parts: Sequence[slice] | None = None,
    ) -> None:
        """`parts` are the shards that each rank computes; by default all ranks share them."""
        buffers = [buffer for buffer in model.buffers() if buffer.numel() > 0]
        statistics = [one for one in buffers if one.is_floating_point() or one.is_complex()]
        counters = [one for one in buffers if not (one.is_floating_point() or one.is_complex())]
        self._tables = [
            _Table(some, shards, dtype)
            for some, dtype in ((statistics, torch.float64), (counters, torch.int64))
            if some
        ]
        self._comm = comm
        parts = parts or cut(shards, comm.size)
        self._counts = [part.stop - part.start for part in parts]
        self._mine = parts[comm.rank]

    def begin(self) -> None:
        """Remember where all shards start from."""
        for table in self._tables:
            table.before = table.pack()

    def record(self, shard: int) -> None:
        """Keep what a shard made of the buffers, and put back what they were before it."""
        for table in self._tables:
            table.rows[shard] = table.pack()
            table.unpack(table.before)

    def finish(self, batch_size: int) -> None:
        """Collective. Bring together what the shards that had samples made of the buffers."""
        for table in self._tables:
            if self._comm.size > 1:
                mine = table.rows[self._mine]
                self._comm.allgather(mine, table.rows, counts=self._counts)
            table.unpack(table.merged(min(len(table.rows), batch_size)))

    def average(self) -> None:
        """Nothing: all ranks have the same."""


class _Table:
    """Buffers of one kind: a row for each shard, all of them one behind the other in it."""

    def __init__(self, buffers: list[Tensor], shards: int, dtype: torch.dtype) -> None:
        self._buffers = buffers
        self._dtype = dtype
        self.before = self.pack()
        self.rows = self.before.new_zeros(shards, len(self.before))

    def pack(self) -> Tensor:
        return torch.cat([numbers_of(one).reshape(-1).to(self._dtype) for one in self._buffers])

    @torch.no_grad()
    def unpack(self, row: Tensor) -> None:
        start = 0
        for buffer in self._buffers:
            numbers = numbers_of(buffer)
            part = row[start : start + numbers.numel()]
            numbers.copy_(part.view(numbers.shape))
            start += numbers.numel()

    def merged(self, filled: int) -> Tensor:
        """What comes after the first `filled` shards."""
        rows = self.rows[:filled]
        if not self._dtype.is_floating_point:
            return rows.amax(0)
        mean = rows[0].clone()
        for row in rows[1:]:
            mean += row
        # A mean of the same numbers may differ from them in the last bit.
        return torch.where((rows == self.before).all(0), self.before, mean.div_(filled))


def numbers_of(buffer: Tensor) -> Tensor:
    """A buffer's numbers, in its own memory; complex ones as pairs."""
    buffer = buffer.detach()
    return torch.view_as_real(buffer) if buffer.is_complex() else buffer
