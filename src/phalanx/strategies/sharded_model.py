"""A model on every rank whose optimizer is sharded: where ranks share no memory, as on GPUs.

Every rank has all weights, and keeps the optimizer's state for its slice of them alone: one copy of
it over all ranks, as in ZeRO-1. A step adds up gradients so that each rank gets its slice of the
sum (reduce-scatter), steps that slice, and puts the new weights together everywhere (all-gather).
With fixed shards the order of the sum matters: each rank gets its slice of every shard's gradient
as it is (all-to-all), and adds them up in the shards' order.

Slices are of one size, which is what fast collectives want: flat memory is longer than the weights
by what that takes.
"""

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, cut
from phalanx.exchange.flat import FlatBlock, FlatParameters, Layout, layouts, pieces_in
from phalanx.exchange.views import dense_strides
from phalanx.state import Slice, State
from phalanx.state.model import (
    PARAMETERS,
    parameter_names,
    read_buffers,
    read_parameters,
    write_buffers,
    write_parameters,
)
from phalanx.state.parts import memory_order
from phalanx.strategies.base import Outcome, Task, Worker
from phalanx.strategies.building_blocks.clipping import chunk_count, chunk_squares, clip_factor
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.rank_buffers import make_buffers
from phalanx.strategies.building_blocks.sliced_optimizer import SlicedOptimizer
from phalanx.strategies.building_blocks.whole_model import broadcast_model


@final
class ShardedModel(Worker):
    """One rank's whole model, and its slice of the optimizer."""

    replicates = True

    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm, self._task = comm, task
        shards = comm.size if task.shards is None else task.shards
        parts = cut(shards, comm.size)
        mine = parts[comm.rank]
        self._counts = [part.stop - part.start for part in parts]
        count = self._counts[comm.rank]
        broadcast_model(comm, task.model)
        self._flat, self._blocks = _lay_out(comm, task.model, rows=max(1, count))
        self._slices = [one.slice for one in self._blocks]
        self._optimizer = SlicedOptimizer(
            task.optimizer, list(zip(self._flat.blocks, self._slices, strict=True))
        )
        self._buffers = make_buffers(task.model, comm, shards=task.shards)
        self._gradients = PartGradients(
            task,
            self._flat,
            parts=range(mine.start, mine.stop),
            of=shards,
            rows=range(count),
            statistics=self._buffers,
        )

    def step(self, batch: Batch) -> Outcome:
        outcome = self._gradients.compute(batch)
        with phase("exchange"):
            for block in self._blocks:
                if self._task.shards is None:
                    block.add_up()
                else:
                    block.add_up_in_order(self._counts)
            self._buffers.finish(batch.size)
            marks = self._read_marks()
        with phase("update"):
            if not self._task.unscale([one.gradients for one in self._blocks], self._comm):
                return outcome
            if self._task.clip_norm is not None:
                self._clip(self._task.clip_norm)
            self._optimizer.step(marks)
        with phase("exchange"):
            for block in self._blocks:
                block.publish()
        return outcome

    def _read_marks(self) -> list[Tensor] | None:
        """Collective. Which parameters any part has a gradient for; None for all of them."""
        count = self._counts[self._comm.rank]
        marks = [block.marks()[: max(1, count)].amax(0) for block in self._flat.blocks]
        if self._comm.size > 1:
            for marked in marks:
                self._comm.allreduce(marked, "maximum")
        return None if all(bool(marked.all()) for marked in marks) else marks

    def _clip(self, limit: float) -> None:
        """Collective. By the norm of the whole, of which each rank knows its slice's chunks."""
        factor = clip_factor(torch.cat([block.squares() for block in self._blocks]), limit)
        for block in self._blocks:
            block.gradients.mul_(factor)

    def sync(self) -> None:
        """Every rank has the weights and statistics already, as far as anybody noticed."""
        self._buffers.average()

    def state(self) -> State:
        """This rank's slices of the parameters and of what the optimizer keeps about them."""
        self.sync()
        names = parameter_names(self._task.model, self._task.optimizer)
        state = read_slices(self._task.model, self._flat, self._slices, names=names)
        return state.add(self._optimizer.state(names))

    def load(self, state: State) -> None:
        names = parameter_names(self._task.model, self._task.optimizer)
        write_parameters(names, state)
        write_buffers(self._task.model, state)
        self._optimizer.load(names, state)

    def close(self) -> None:
        self._optimizer.close()
        self._flat.release()


def read_slices(
    model: nn.Module,
    flat: FlatParameters,
    slices: Sequence[slice],
    *,
    names: Mapping[nn.Parameter, str],
) -> State:
    """Copies of a rank's slices of the parameters, and of all buffers and frozen parameters."""
    frozen = {parameter: names[parameter] for parameter in flat.frozen}
    state = read_parameters(frozen).add(read_buffers(model))
    for block, slice_ in zip(flat.blocks, slices, strict=True):
        for parameter, where, values in pieces_in(block, slice_):
            order = memory_order(dense_strides(parameter))
            part = Slice(values.clone(), tuple(parameter.shape), order, where.start)
            state.tensors[f"{PARAMETERS}{names[parameter]}"] = part
    return state


def _lay_out(
    comm: Communicator, model: nn.Module, *, rows: int
) -> tuple[FlatParameters, list["_ShardedBlock"]]:
    """Flat storage in memory that is cut in slices of one size."""
    made: list[Tensor] = []
    plans = layouts(model)

    def allocate(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        plan = plans[len(made) // 2]  # values and rows in turn, block by block
        whole = comm.size * _share(plan, comm.size) * plan.chunk
        device = plan.parameters[0].device
        made.append(torch.zeros((*shape[:-1], whole), dtype=dtype, device=device))
        return made[-1][..., : shape[-1]]

    flat = FlatParameters(model, rows=rows, allocate=allocate, marks_apart=True)
    pairs = zip(flat.blocks, made[::2], made[1::2], strict=True)
    return flat, [_ShardedBlock(comm, *one) for one in pairs]


def _share(layout: Layout, ranks: int) -> int:
    """The chunks of a rank's slice."""
    return -(-(layout.length // layout.chunk) // ranks)


@final
class _ShardedBlock:
    """The parameters of one dtype, and what this rank does for its slice of them."""

    def __init__(self, comm: Communicator, block: FlatBlock, values: Tensor, rows: Tensor) -> None:
        """`values` and `rows`: the block's memory with what follows it."""
        self._comm, self._block, self._values, self._rows = comm, block, values, rows
        layout = block.layout
        self._share = _share(layout, comm.size)
        self._length = self._share * layout.chunk
        start = comm.rank * self._length
        self._mine = slice(start, start + self._length)
        #: This rank's part of the weights; there may be none left for the last ranks.
        self.slice = slice(min(start, layout.length), min(start + self._length, layout.length))

    @property
    def gradients(self) -> Tensor:
        """Those of this rank's slice, summed."""
        return self._block.gradients[self.slice]

    def add_up(self) -> None:
        """Collective. Make this rank's slice of the first row the sum over all ranks."""
        self._comm.reduce_scatter(self._rows[0], self._rows[0, self._mine])

    def add_up_in_order(self, counts: Sequence[int]) -> None:
        """Collective. The same, shard by shard; `counts` has each rank's number of them."""
        size, mine = self._comm.size, counts[self._comm.rank]
        by_rank = self._rows[:mine].view(mine, size, self._length).transpose(0, 1)
        received = self._rows.new_empty((sum(counts), self._length))
        self._comm.all_to_all(
            by_rank.reshape(size * mine, self._length),
            received,
            send_counts=[mine] * size,
            receive_counts=counts,
        )
        total = received[0]
        for row in received[1:]:
            total.add_(row)
        self._rows[0, self._mine].copy_(total)

    def squares(self) -> Tensor:
        """Collective. The squared norms of all chunks, of which each rank computes its own."""
        chunks, size = chunk_count(self._block), self._comm.size
        mine = slice(
            min(self._comm.rank * self._share, chunks),
            min((self._comm.rank + 1) * self._share, chunks),
        )
        own = self._values.new_zeros(self._share, dtype=torch.float64)
        own[: mine.stop - mine.start] = chunk_squares(self._block, mine)
        everyone = own.new_empty(size * self._share)
        self._comm.allgather(own, everyone)
        return everyone[:chunks]

    def publish(self) -> None:
        """Collective. Give everybody the slices that their owners have stepped."""
        self._comm.allgather(self._values[self._mine], self._values)
