"""What strategies with a whole model on every rank share: one start, one set of statistics."""

import torch
from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.strategies.flat import FlatParameters


def broadcast_model(comm: Communicator, model: nn.Module, flat: FlatParameters) -> None:
    """Collective. Every rank's model becomes rank 0's: parameters, frozen ones and buffers."""
    if comm.size == 1:
        return
    for block in flat.blocks:
        comm.broadcast(block.values)
    for tensor in [*flat.frozen, *_unique_buffers(model)]:
        _in_place(comm.broadcast, tensor)


def average_buffers(comm: Communicator, model: nn.Module) -> None:
    """Collective. Running statistics become their mean over the ranks; counters their maximum."""
    if comm.size == 1:
        return
    for buffer in _unique_buffers(model):
        if buffer.is_floating_point():
            _in_place(comm.allreduce, buffer)
            buffer.div_(comm.size)
        else:
            _in_place(lambda tensor: comm.allreduce(tensor, "maximum"), buffer)


def _unique_buffers(model: nn.Module) -> list[Tensor]:
    return list(model.buffers())


def _in_place(operation: object, tensor: Tensor) -> None:
    """Run a communicator's in-place verb, through a dense copy where the tensor is strided."""
    assert callable(operation)
    with torch.no_grad():
        dense = tensor.contiguous()
        operation(dense)
        if dense.data_ptr() != tensor.data_ptr():
            tensor.copy_(dense)
