"""Buffers under fixed shards: every shard starts from the same, and their mean comes next.

BatchNorm's running statistics are the usual case. Without fixed shards each rank keeps those of its
own parts, and `average_buffers` brings them together when the weights are read.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.data.batches import cut


class ShardedBuffers:
    """All buffers of a model, shard by shard.

    They are kept as float64, which holds float32 and counters exactly, and averaged in the shards'
    order: the same bits on any number of ranks.
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
        self._buffers = [buffer for buffer in model.buffers() if buffer.numel() > 0]
        self._comm = comm
        parts = parts or cut(shards, comm.size)
        self._counts = [part.stop - part.start for part in parts]
        self._mine = parts[comm.rank]
        size = sum(buffer.numel() for buffer in self._buffers)
        self._table = torch.zeros(shards, size, dtype=torch.float64)
        self._before = self._pack()

    def begin(self) -> None:
        """Remember where all shards start from."""
        self._before = self._pack()

    def record(self, shard: int) -> None:
        """Keep what a shard made of the buffers, and put back what they were before it."""
        if self._buffers:
            self._table[shard] = self._pack()
            self._unpack(self._before)

    def finish(self, batch_size: int) -> None:
        """Collective. Set the buffers to their mean over the shards that had samples."""
        if not self._buffers:
            return
        if self._comm.size > 1:
            mine = self._table[self._mine]
            self._comm.allgather(mine, self._table, counts=self._counts)
        filled = min(len(self._table), batch_size)
        mean = self._table[0].clone()
        for row in self._table[1:filled]:
            mean += row
        self._unpack(mean.div_(filled))

    def _pack(self) -> Tensor:
        parts = [buffer.detach().reshape(-1).to(torch.float64) for buffer in self._buffers]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.float64)

    @torch.no_grad()
    def _unpack(self, row: Tensor) -> None:
        start = 0
        for buffer in self._buffers:
            part = row[start : start + buffer.numel()]
            buffer.copy_(part.view(buffer.shape))
            start += buffer.numel()
