"""What is each rank's own, shown as the mean of all: for evaluations, and at the end."""

from typing import final

import torch
from torch import nn

from phalanx.comm.base import Communicator
from phalanx.exchange.flat import FlatParameters
from phalanx.strategies.building_blocks.whole_model import average_buffers


@final
class Shown:
    """The mean of all ranks' weights and statistics, in their place until they are taken back.

    Ranks that always have the same count as often as they are.
    """

    def __init__(self, comm: Communicator, flat: FlatParameters, model: nn.Module) -> None:
        """Collective."""
        self._comm = comm
        weights = [block.values for block in flat.blocks]
        self._tensors = [*weights, *(one.detach() for one in model.buffers())]
        self._own = [one.clone() for one in self._tensors]
        for values in weights:
            comm.allreduce(values)
            values.div_(comm.size)
        average_buffers(comm, model)
        self._means = [one.clone() for one in self._tensors]

    @torch.no_grad()
    def take_back(self) -> bool:
        """Collective. Put every rank's own back, unless any rank has changed what was shown."""
        pairs = zip(self._tensors, self._means, strict=True)
        changed = torch.tensor([not torch.equal(now, mean) for now, mean in pairs]).any()
        flag = changed.to(torch.int64).reshape(1)
        self._comm.allreduce(flag, "maximum")
        if flag.item():
            return False
        for tensor, own in zip(self._tensors, self._own, strict=True):
            tensor.copy_(own)
        return True
