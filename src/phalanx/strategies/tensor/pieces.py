"""Parameters and buffers cut to this rank's pieces, and put together again.

The objects stay the same, for optimizers and users hold on to them: what changes is their data.
"""

from collections.abc import Iterable, Sequence
from typing import cast, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.comm.base import Communicator
from phalanx.exchange.views import dense_strides
from phalanx.state.parts import Part, Portion, along
from phalanx.strategies.tensor.collectives import narrow
from phalanx.strategies.tensor.plan import Split


@final
class Piece:
    """One parameter or buffer of a module, cut along one of its dimensions."""

    def __init__(
        self, module: nn.Module, name: str, *, dim: int, slices: Sequence[slice], rank: int
    ) -> None:
        is_parameter = name in module._parameters
        self._place = cast(
            dict[str, Tensor], module._parameters if is_parameter else module._buffers
        )
        self._name = name
        self._dim = dim
        self._sizes = [part.stop - part.start for part in slices]
        self._mine = slices[rank]
        self.tensor = self._place[name]
        self._shape = self.tensor.shape
        self._strides = self.tensor.stride()

    def cut(self, optimizer: Optimizer) -> None:
        """Keep this rank's piece alone, of the values and of what the optimizer knows of them."""
        # `load_state_dict(assign=True)` may have put another object here.
        whole = self._place[self._name].detach()
        self._shape, self._strides = whole.shape, dense_strides(whole)
        self._place[self._name] = self.tensor
        self._replace(self._part(whole))
        state = optimizer.state.get(self.tensor, {})
        for name, value in state.items():
            if isinstance(value, Tensor) and value.shape == self._shape:
                state[name] = self._part(value)

    def join(self, comm: Communicator) -> None:
        """Collective. Put the ranks' pieces together on every rank."""
        mine = self.tensor.detach().movedim(self._dim, 0).contiguous()
        everyone = mine.new_empty((sum(self._sizes), *mine.shape[1:]))
        comm.allgather(mine, everyone, counts=self._sizes)
        whole = torch.empty_strided(
            self._shape, self._strides, dtype=mine.dtype, device=mine.device
        )
        whole.movedim(self._dim, 0).copy_(everyone)
        self._replace(whole)

    def describe(self, value: Tensor, *, copy: bool = True) -> Part:
        """This rank's piece, or what an optimizer keeps about it, with where it lies in the whole;
        what is whole already stays so."""
        if value.shape == self._shape:
            return value.detach().clone() if copy else value.detach()
        start, shape = self._mine.start, tuple(self._shape)
        return along(value, self._dim, start=start, shape=shape, copy=copy)

    @property
    def portion(self) -> Portion:
        """What of the whole this rank has."""
        return Portion(tuple(self._shape), self._dim, self._mine.start)

    def _part(self, whole: Tensor) -> Tensor:
        return narrow(whole, self._dim, self._mine).clone()

    def _replace(self, data: Tensor) -> None:
        tensor = self.tensor
        tensor.grad = None
        # Autograd may remember the old shape, for a graph that somebody keeps. Another dtype in
        # between makes it forget.
        other = torch.float32 if tensor.dtype != torch.float32 else torch.float64
        tensor.data = torch.empty(0, dtype=other, device=tensor.device)
        tensor.data = data


def find_pieces(module: nn.Module, split: Split, comm: Communicator) -> Iterable[Piece]:
    """What of a module is cut, and how."""
    slices = split.slices(comm.size)
    dims = {
        "output": {"weight": 0, "bias": 0},
        "input": {"weight": 1},
        "norm": {"weight": 0, "bias": 0, "running_mean": 0, "running_var": 0},
        "dropout": {},
    }[split.how]
    for name, dim in dims.items():
        if getattr(module, name) is not None:
            yield Piece(module, name, dim=dim, slices=slices, rank=comm.rank)
