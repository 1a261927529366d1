"""Passes that are made to find something out, and must leave no trace in a model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def preserved(layers: Sequence[nn.Module]) -> Iterator[None]:
    """Put back the buffers of layers, and the state of torch's random numbers, at the end."""
    buffers = [buffer for layer in layers for buffer in layer.buffers()]
    before = [buffer.clone() for buffer in buffers]
    random = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(random)
        with torch.no_grad():
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)
