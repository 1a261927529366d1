"""Self-attention over the tokens of a text, each of which sees itself and those before it."""

from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@final
class CausalHeads(nn.Module):
    """Attention heads without weights: what lies between two linear layers.

    The layer before them makes [samples, tokens, heads × 3 × size]: for each head its queries, keys
    and values, one behind the other. How many heads there are, the inputs say, so that some of them
    are computed as all are: strategy `tensor` gives each rank some.
    """

    #: What each head is given for each of its outputs: a query, a key and a value.
    parts = 3

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, inputs: Tensor) -> Tensor:
        """[samples, tokens, heads × size]."""
        split = torch.unflatten(inputs, -1, (-1, self.parts, self.size))
        by_head = split.permute(3, 0, 2, 1, 4)
        queries, keys, values = by_head.unbind(0)
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return mixed.transpose(1, 2).flatten(2)

    def extra_repr(self) -> str:
        return f"size={self.size}"
