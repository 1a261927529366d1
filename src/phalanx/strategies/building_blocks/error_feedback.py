"""What lossy sums keep from step to step, as a part of a training's state, by parameter.

Each rank remembers what it lost of its own gradient, or of a sum that it made. All of it together
is what the next steps still have to add: whoever adds it. Sums of low rank also keep factors, which
are the same on all ranks.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from phalanx.exchange.flat import FlatBlock
from phalanx.exchange.lossy import LossySum
from phalanx.state import Share, State

_LOST, _FACTORS = "strategy/error feedback/", "strategy/low rank/"
_SHARES = "compressed sums"

Names = Mapping[nn.Parameter, str]


class ErrorFeedback:
    """What the lossy sums over some blocks' gradients keep, or over other tensors like them."""

    def __init__(
        self,
        place: tuple[int, int],
        blocks: Sequence[FlatBlock],
        sums: Sequence[LossySum],
        *,
        inside: Sequence[Tensor] | None = None,
        shares: str = _SHARES,
    ) -> None:
        """`place`: this rank's number among those that a state is put together by, of how many;
        `inside`: the flat tensor of each block that sums are over stretches of; `shares`: what a
        state with shares like these is known by."""
        self._place, self._sums, self._shares = place, sums, shares
        self._blocks = blocks
        tensors = [block.gradients for block in blocks] if inside is None else inside
        self._tensors = dict(zip(blocks, tensors, strict=True))

    def state(self, names: Names) -> State:
        """This rank's share of what was lost; nothing if nothing is kept."""
        kept = [one for one in self._sums if one.lost() is not None]
        if not kept:
            return State()
        state = State(values={"shared by": self._shares})
        for block in self._blocks:
            flat = torch.zeros_like(block.values)
            for one, place in self._inside(block):
                lost = one.lost()
                if lost is not None:
                    flat[place] = lost
            for parameter, value in zip(block.layout.parameters, block.shaped(flat), strict=True):
                state.tensors[f"{_LOST}{names[parameter]}"] = Share(value.clone(), "sum")
            for name, factor in self._factors(block, names):
                state.tensors[name] = factor.clone()
        return state

    def load(self, names: Names, state: State) -> None:
        """Go on from there: with this rank's own, or with a share of all ranks' together."""
        rank, size = self._place
        own = state.of_rank(rank, size=size, strategy=self._shares)
        for block in self._blocks:
            flat = self._flat(block, names, own or state)
            for one, place in self._inside(block):
                one.take_lost(flat[place], of_all=own is None)
            for name, factor in self._factors(block, names):
                if name in state.tensors and state.tensor(name).shape == factor.shape:
                    factor.copy_(state.tensor(name))

    def _flat(self, block: FlatBlock, names: Names, state: State) -> Tensor:
        flat = torch.zeros_like(block.values)
        for parameter, view in zip(block.layout.parameters, block.shaped(flat), strict=True):
            if f"{_LOST}{names[parameter]}" in state.tensors:
                view.copy_(state.tensor(f"{_LOST}{names[parameter]}"))
        return flat

    def _factors(self, block: FlatBlock, names: Names) -> Iterator[tuple[str, Tensor]]:
        """Every factor, by its parameter and the first element that it is for."""
        layout = block.layout
        starts = dict(zip(layout.starts, layout.parameters, strict=True))
        for one, place in self._inside(block):
            for first, factor in one.factors():
                start = max(start for start in starts if start <= place.start + first)
                offset = place.start + first - start
                yield f"{_FACTORS}{names[starts[start]]}/{offset}", factor

    def _inside(self, block: FlatBlock) -> Iterator[tuple[LossySum, slice]]:
        """The sums that are over a block's tensor, each with its place in it."""
        first = self._tensors[block].data_ptr()
        for one in self._sums:
            start = (one.tensor.data_ptr() - first) // one.tensor.element_size()
            if one.tensor.dtype == block.layout.dtype and 0 <= start < block.layout.length:
                yield one, slice(start, start + one.tensor.numel())
