"""A `Split` for an objective of a user's own: its batches are pairs of inputs and targets."""

from concurrent.futures import Future
from typing import Any, final

import torch
from torch import Tensor

from phalanx.data.own.nest import Nest
from phalanx.data.split import Samples, Split
from phalanx.data.transforms import Draw


@final
class Paired:
    """Takes what a split takes, scaled and transformed as there."""

    #: Every rank has all targets, but what a batch weighs may depend on its inputs.
    has_targets = False

    def __init__(self, split: Split) -> None:
        self.split = split

    def __len__(self) -> int:
        return len(self.split)

    @property
    def ahead(self) -> int:
        """How many batches are fetched before they are needed."""
        return self.split.ahead

    def ask(self, indices: Tensor, draw: Draw | None) -> "Future[Any] | None":
        """Have inputs fetched beside the training, if they are not in memory."""
        return self.split.ask(indices, draw)

    def take(
        self,
        indices: Tensor,
        *,
        dtype: torch.dtype = torch.float32,
        draw: Draw | None = None,
        fetched: Any = None,
    ) -> Samples:
        """The samples at `indices`, all of a batch in one."""
        taken = self.split.take(indices, dtype=dtype, draw=draw, fetched=fetched)
        nest = Nest((taken.inputs, taken.targets), count=len(indices))
        return Samples(nest, nest)

    def take_targets(self, indices: Tensor, *, dtype: torch.dtype = torch.float32) -> Any:
        """What an objective calls them: the whole batch."""
        return self.take(indices, dtype=dtype).targets
