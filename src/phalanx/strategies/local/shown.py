"""What is each rank's own, shown as the mean of all: for evaluations, and at the end."""

from typing import final

import torch
from torch import nn

from phalanx.exchange.flat import FlatParameters
from phalanx.strategies.building_blocks.whole_model import average_buffers
from phalanx.strategies.local.replicas import Replicas


@final
class Shown:
    """The mean of all ranks' weights and statistics, in their place until they are taken back.

    Ranks that always have the same count as often as they are.
    """

    def __init__(
        self, replicas: Replicas, flat: FlatParameters, model: nn.Module, *, together: bool
    ) -> None:
        """Collective. Weights that are the same on all ranks stay as they are."""
        self._comm = replicas.everyone
        weights = [block.values for block in flat.blocks]
        self._tensors = [*weights, *(one.detach() for one in model.buffers())]
        self._own = [one.clone() for one in self._tensors]
        for values in () if together else weights:
            replicas.average(values)
        average_buffers(self._comm, model)
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
