"""What compressed sums keep from step to step, as a part of a training's state, by parameter.

Each rank remembers what it rounded away of its own gradient, and of the part of the sum that it
owns. All of it together is what the next steps still have to add: whoever adds it.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.exchange.compression import CompressedSum
from phalanx.exchange.flat import FlatBlock
from phalanx.state import Share, State

_SENT, _SUMMED = "strategy/error feedback/sent/", "strategy/error feedback/summed/"
_SHARES = "compressed sums"

Names = Mapping[nn.Parameter, str]


class ErrorFeedback:
    """The residuals of the compressed sums over some blocks' gradients."""

    def __init__(
        self, comm: Communicator, blocks: Sequence[FlatBlock], sums: Sequence[CompressedSum]
    ) -> None:
        self._comm, self._blocks, self._sums = comm, blocks, sums

    def state(self, names: Names) -> State:
        """This rank's share of what was rounded away; nothing if nothing is compressed."""
        if not self._sums:
            return State()
        state = State(values={"shared by": _SHARES})
        for block in self._blocks:
            sent, summed = torch.zeros_like(block.values), torch.zeros_like(block.values)
            for one, place in self._inside(block):
                sent[place], summed[place] = one.residuals_in_place(self._comm.rank)
            for prefix, flat in ((_SENT, sent), (_SUMMED, summed)):
                shaped = zip(block.layout.parameters, block.shaped(flat), strict=True)
                for parameter, value in shaped:
                    state.tensors[f"{prefix}{names[parameter]}"] = Share(value.clone(), "sum")
        return state

    def load(self, names: Names, state: State) -> None:
        """Go on from there. Without this rank's own, the sums' owners have all of it to add."""
        own = state.of_rank(self._comm.rank, size=self._comm.size, strategy=_SHARES)
        for block in self._blocks:
            sent, summed = (self._flat(block, names, own or state, one) for one in (_SENT, _SUMMED))
            if own is None:
                summed.add_(sent)
                sent.zero_()
            for one, place in self._inside(block):
                one.take_residuals(sent[place], summed[place], rank=self._comm.rank)

    def _flat(self, block: FlatBlock, names: Names, state: State, prefix: str) -> Tensor:
        flat = torch.zeros_like(block.values)
        for parameter, view in zip(block.layout.parameters, block.shaped(flat), strict=True):
            if f"{prefix}{names[parameter]}" in state.tensors:
                view.copy_(state.tensor(f"{prefix}{names[parameter]}"))
        return flat

    def _inside(self, block: FlatBlock) -> Iterator[tuple[CompressedSum, slice]]:
        """The sums that are over a block's gradients, each with its place in them."""
        first = block.gradients.data_ptr()
        for one in self._sums:
            start = (one.tensor.data_ptr() - first) // one.tensor.element_size()
            if one.tensor.dtype == block.layout.dtype and 0 <= start < block.layout.length:
                yield one, slice(start, start + one.tensor.numel())
