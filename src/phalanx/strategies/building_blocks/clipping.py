"""Clipping by the global norm, the same to the last bit however the gradient is cut.

The norm is made from the norms of fixed chunks, whoever computes them, added up in their order.
"""

import math

import torch
from torch import Tensor

from phalanx.exchange.flat import FlatBlock


def chunk_squares(block: FlatBlock, chunks: slice) -> Tensor:
    """The squared norm of each of these chunks of a block's summed gradient, as float64."""
    size = block.layout.chunk
    table = block.gradients[chunks.start * size : chunks.stop * size].view(-1, size)
    norms: Tensor = torch.linalg.vector_norm(table, dim=1)
    return norms.to(torch.float64).square_()


def chunk_count(block: FlatBlock) -> int:
    """How many chunks a block has."""
    return block.layout.length // block.layout.chunk


def clip_factor(squares: Tensor, limit: float) -> float | Tensor:
    """What to multiply gradients by so that their norm is at most the limit; as torch has it."""
    if not squares.is_cpu:  # nobody waits for it
        return (limit / (squares.sum().sqrt() + 1e-6)).clamp(max=1.0)
    norm = math.sqrt(float(squares.sum()))
    # In this order: of a norm that is no number neither is the factor.
    return min(limit / (norm + 1e-6), 1.0)
