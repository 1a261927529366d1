"""Which rank holds which weights of a model that is cut in stages.

While it trains, a rank keeps the weights of its own stage alone. Together they have the model again
when somebody wants to read it.
"""

from collections.abc import Sequence
from functools import partial
from typing import final

import torch
from torch import nn

from phalanx.comm.base import Communicator
from phalanx.comm.launch.process import release_freed_memory
from phalanx.exchange.views import dense_strides
from phalanx.strategies.building_blocks.whole_model import in_place


@final
class Holdings:
    """The stages of a model, of which this rank keeps one."""

    def __init__(self, comm: Communicator, stages: Sequence[nn.Module]) -> None:
        self._comm = comm
        self._stages = stages
        self._complete = True
        self._shapes: dict[nn.Parameter, tuple[torch.Size, tuple[int, ...]]] = {}

    @property
    def complete(self) -> bool:
        """Whether this rank has all weights, as trained so far."""
        return self._complete

    def release(self) -> None:
        """Give back the memory of the other stages' weights and gradients."""
        if not self._complete:
            return
        self._complete = False
        for stage, module in enumerate(self._stages):
            if stage != self._comm.rank:
                for parameter in module.parameters():
                    self._shapes[parameter] = parameter.shape, dense_strides(parameter)
                    parameter.grad = None
                    parameter.data = parameter.data.new_empty(0)
        if self._shapes:
            release_freed_memory()

    def collect(self) -> None:
        """Collective. Get the weights and buffers of every stage from the rank that has it."""
        for parameter, (shape, strides) in self._shapes.items():
            parameter.data = torch.empty_strided(
                shape, strides, dtype=parameter.dtype, device=parameter.device
            )
        self._shapes.clear()
        for stage, module in enumerate(self._stages):
            for tensor in [*module.parameters(), *module.buffers()]:
                in_place(partial(self._comm.broadcast, root=stage), tensor.detach())
        self._complete = True
