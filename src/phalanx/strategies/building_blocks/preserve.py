"""Passes that are made to find something out, or be timed, and must leave no trace in a model."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def preserved(layers: Sequence[nn.Module]) -> Iterator[None]:
    """Put back the buffers of layers, and the state of torch's random numbers, at the end."""
    buffers = [buffer for layer in layers for buffer in layer.buffers()]
    before = [buffer.clone() for buffer in buffers]
    with torch.random.fork_rng(gpus_of(layers)):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, value in zip(buffers, before, strict=True):
                    buffer.copy_(value)


def gpus_of(layers: Sequence[nn.Module]) -> list[torch.device]:
    """Where layers have parameters, but for CPUs."""
    devices = {parameter.device for layer in layers for parameter in layer.parameters()}
    return sorted((one for one in devices if one.type == "cuda"), key=str)


def settle(model: nn.Module) -> None:
    """Wait until a model's GPUs have done what they were told: without, only calls are timed."""
    for device in gpus_of([model]):
        torch.cuda.synchronize(device)
