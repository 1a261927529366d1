"""What strategies with a whole model on every rank share: one start, one update, one end."""

import hashlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.exchange.flat import FlatParameters
from phalanx.state import State
from phalanx.state.model import (
    parameter_names,
    read_buffers,
    read_parameters,
    write_buffers,
    write_parameters,
)
from phalanx.state.optimizer import read_optimizer, write_entries, write_groups
from phalanx.strategies.base import Task
from phalanx.strategies.building_blocks.clipping import chunk_count, chunk_squares, clip_factor


class WholeModel:
    """A rank's whole model, updated by the summed gradient in the first row of its storage."""

    def __init__(self, task: Task, flat: FlatParameters) -> None:
        self._task = task
        self._flat = flat

    def update(self, marks: Sequence[Tensor]) -> None:
        """Clip if asked to, and step the optimizer; parameters not marked are skipped."""
        with phase("update"):
            if self._task.unscale([block.gradients for block in self._flat.blocks]):
                self.attach(marks)
                self._task.optimizer.step()

    def attach(self, marks: Sequence[Tensor]) -> None:
        """Make the summed gradient every parameter's, clipped if that is asked for."""
        task, blocks = self._task, self._flat.blocks
        if task.clip_norm is not None:
            squares = [chunk_squares(block, slice(0, chunk_count(block))) for block in blocks]
            factor = clip_factor(torch.cat(squares), task.clip_norm)
            for block in blocks:
                block.gradients.mul_(factor)
        for block, marked in zip(blocks, marks, strict=True):
            block.attach_gradients(0)
            if not marked.all():
                _drop_unused(block.layout.parameters, marked)


def whole_state(task: Task) -> State:
    """What a rank that has the whole model and its optimizer's state knows of a training."""
    names = parameter_names(task.model, task.optimizer)
    state = read_parameters(names).add(read_buffers(task.model))
    return state.add(read_optimizer(task.optimizer, names))


def load_whole(task: Task, state: State, *, entries: bool = True) -> None:
    """Give a rank's whole model and its optimizer a state; `entries` says whether the optimizer of
    this rank is one that steps, and so needs more than its hyper-parameters."""
    names = parameter_names(task.model, task.optimizer)
    write_parameters(names, state)
    write_buffers(task.model, state)
    write_groups(task.optimizer, state)
    if entries:
        write_entries(task.optimizer, names, state)


def _drop_unused(parameters: tuple[nn.Parameter, ...], marks: Tensor) -> None:
    """Take the gradient from parameters that no part used: optimizers then skip them."""
    for parameter, used in zip(parameters, marks.tolist(), strict=True):
        if not used:
            parameter.grad = None


def broadcast_model(comm: Communicator, model: nn.Module) -> None:
    """Collective. Every rank's model becomes rank 0's: parameters, frozen ones and buffers."""
    if comm.size > 1:
        with phase("broadcast"):
            for tensor in [*model.parameters(), *model.buffers()]:
                in_place(comm.broadcast, tensor.detach())


def average_buffers(comm: Communicator, model: nn.Module, *, serving: int = 0) -> None:
    """Collective. Running statistics become their mean over the ranks; counters their maximum.

    Buffers that are the same on all ranks stay as they are. The first `serving` ranks have called
    no model, and so have none of their own to bring.
    """
    buffers = [buffer for buffer in model.buffers() if buffer.numel() > 0]
    if comm.size == 1 or not buffers:
        return
    everyone = comm.allgather_objects([digest(buffer) for buffer in buffers])
    for number, buffer in enumerate(buffers):
        found = {digests[number] for digests in everyone[serving:]}
        if len(found) > 1:
            in_place(lambda tensor: _combine(comm, tensor, serving=serving), buffer)
        elif any(digests[number] not in found for digests in everyone[:serving]):
            in_place(lambda tensor: comm.broadcast(tensor, serving), buffer)


def digest(buffer: Tensor) -> bytes:
    """What only the same bits have."""
    content = buffer.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.blake2b(content.numpy().data, digest_size=16).digest()


def _combine(comm: Communicator, tensor: Tensor, *, serving: int) -> None:
    """Collective. The mean of what the ranks have, or the largest where that is whole numbers."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        comm.allreduce(tensor, "maximum")
        return
    numbers = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    # In float64 even a few of the largest numbers of a smaller type do not add up to infinity.
    total = numbers.to(torch.float64, copy=True)
    if comm.rank < serving:
        total.zero_()
    comm.allreduce(total)
    numbers.copy_(total.div_(comm.size - serving))


@torch.no_grad()
def in_place(operation: Callable[[Tensor], None], tensor: Tensor) -> None:
    """Run a communicator's in-place verb, through a dense copy where the tensor is strided."""
    dense = tensor.contiguous()
    operation(dense)
    if dense.data_ptr() != tensor.data_ptr():
        tensor.copy_(dense)
