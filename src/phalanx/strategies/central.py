"""`central`: one copy of parameters and optimizer state per host; every rank updates its slice.

Parameters and gradients live in memory that the ranks of a host share. Each rank writes its
gradient there; after a barrier each sums its own slice over all gradients and steps the optimizer
on that slice alone; a second barrier publishes the new weights: everybody reads the same memory.
Nothing is broadcast, and neither the optimizer's work nor its memory grows with the ranks.

Between hosts each slice is exchanged by the ranks that own it, one a host, so that the network
carries every byte as seldom as it can.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.comm.hosts import Hosts, arrange
from phalanx.comm.launch.process import release_freed_memory
from phalanx.comm.shared import SharedMemory, room_for
from phalanx.data.batches import Batch, cut
from phalanx.exchange.flat import FlatParameters, layouts, pieces_in, zeros
from phalanx.exchange.rows import SMALL, RowSum, SmallSum
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
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.building_blocks.clipping import chunk_count, chunk_squares, clip_factor
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.sharded_buffers import ShardedBuffers
from phalanx.strategies.building_blocks.sliced_optimizer import SlicedOptimizer, check_elementwise
from phalanx.strategies.building_blocks.whole_model import average_buffers, broadcast_model


@dataclass(frozen=True)
class Central(Strategy):
    """One copy a host, stepped slice by slice."""

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_elementwise(task.optimizer, strategy="central")
        return CentralWorker(arrange(comm), task)


class CentralWorker(Worker):
    def __init__(self, hosts: Hosts, task: Task) -> None:
        self._hosts = hosts
        self._task = task
        comm = hosts.everyone
        shards = comm.size if task.shards is None else task.shards
        parts = [range(part.start, part.stop) for part in cut(shards, comm.size)]
        mine = parts[comm.rank]
        first = comm.rank - hosts.host.rank  # the first rank of this host, and so its first part
        last = parts[first + hosts.host.size - 1]
        rows = range(parts[first].start, last.stop)
        self._filled = len(rows)  # none on a host that fewer shards than ranks leave idle
        self._small = self._is_small()
        # Before the move: the ranks of a host will all write their weights to the same place.
        broadcast_model(comm, task.model)
        self._flat, self._squares = self._share(task, 2 if self._small else max(1, len(rows)))
        self._sharded_buffers = (
            None if task.shards is None else ShardedBuffers(task.model, comm, shards=shards)
        )
        self._gradients = PartGradients(
            task,
            self._flat,
            parts=mine,
            of=shards,
            rows=[1] if self._small else [part - rows.start for part in mine],
            statistics=self._sharded_buffers,
        )
        self._cut_slices()

    def _is_small(self) -> bool:
        """Whether the gradient is so small that MPI adds it up sooner than shared memory does."""
        size = sum(plan.row_length * plan.dtype.itemsize for plan in layouts(self._task.model))
        one_host = self._hosts.host.size == self._hosts.everyone.size
        return self._task.shards is None and one_host and size <= SMALL

    def _share(self, task: Task, rows: int) -> tuple[FlatParameters, Tensor]:
        """Move the model into memory that the ranks of this host share."""
        plan = layouts(task.model)
        chunks = sum(layout.length // layout.chunk for layout in plan)
        room = room_for((chunks,), torch.float64)
        for layout in plan:
            room += room_for((layout.length,), layout.dtype)
            room += room_for((rows, layout.row_length), layout.dtype)
        memory = SharedMemory(self._hosts.host, room)
        flat = FlatParameters(
            task.model,
            rows=rows,
            allocate=memory.tensor,
            allocate_rows=zeros if self._small else memory.tensor,
        )
        release_freed_memory()  # where the weights were before
        self._hosts.host.barrier()
        return flat, memory.tensor((chunks,), torch.float64)

    def _cut_slices(self) -> None:
        """Give this rank its slice of every block, cut between chunks."""
        hosts = self._hosts
        self._slices = []
        self._chunks = []
        for block in self._flat.blocks:
            chunks = slice(0, 0)
            if hosts.has_peers:
                chunks = cut(chunk_count(block), hosts.columns)[hosts.host.rank]
            size = block.layout.chunk
            self._chunks.append(chunks)
            self._slices.append(slice(chunks.start * size, chunks.stop * size))
        blocks = list(zip(self._flat.blocks, self._slices, strict=True))
        self._marks = [block.marks() for block in self._flat.blocks]
        self._sums = [
            SmallSum(hosts.host, block.rows) if self._small else RowSum(block.rows, slice_)
            for block, slice_ in blocks
        ]
        self._optimizer = SlicedOptimizer(self._task.optimizer, blocks)

    def step(self, batch: Batch) -> Outcome:
        outcome = self._gradients.compute(batch)
        with phase("wait"):
            if not self._small:  # else MPI's sum is where all ranks meet
                self._hosts.host.barrier()
        with phase("exchange"):
            self._add_up()
            marks = self._read_marks()
            if self._sharded_buffers is not None:
                self._sharded_buffers.finish(batch.size)
        with phase("update"):
            if self._task.clip_norm is not None:
                self._clip(self._task.clip_norm)
            self._optimizer.step(marks)
        with phase("wait"):
            self._hosts.host.barrier()
        return outcome

    def _read_marks(self) -> list[Tensor] | None:
        """Collective. Which parameters any part has a gradient for; None for all, as is usual."""
        peers = self._hosts.peers
        if peers.size == 1 and all(bool(marks.all()) for marks in self._marks):
            return None
        marks = [one.amax(0) for one in self._marks]
        if peers.size > 1:
            for marked in marks:
                peers.allreduce(marked, "maximum")
        return marks

    def _add_up(self) -> None:
        """Make the first row, in this rank's slices, the sum over all parts on all hosts."""
        peers = self._hosts.peers
        if peers.size == 1:
            for total in self._sums:
                total.add_up()
            return
        slices = zip(self._flat.blocks, self._slices, self._sums, strict=True)
        for block, slice_, total in slices:
            if self._task.shards is None:
                total.add_up()
                peers.allreduce(block.gradients[slice_])
            else:
                _add_up_in_order(peers, block.rows[:, slice_], filled=self._filled)

    def _clip(self, limit: float) -> None:
        """Each rank's chunks' norms into a common table; from it the same factor everywhere."""
        start = 0
        for block, chunks in zip(self._flat.blocks, self._chunks, strict=True):
            place = self._squares[start + chunks.start : start + chunks.stop]
            place.copy_(chunk_squares(block, chunks))
            start += chunk_count(block)
        self._hosts.host.barrier()
        factor = clip_factor(self._squares, limit)
        for block, slice_ in zip(self._flat.blocks, self._slices, strict=True):
            block.gradients[slice_].mul_(factor)

    def sync(self) -> None:
        """Everybody reads the same weights already; running statistics are averaged."""
        if self._sharded_buffers is None:
            average_buffers(self._hosts.everyone, self._task.model)

    def state(self) -> State:
        """This rank's slices of the parameters and of what the optimizer keeps about them."""
        self.sync()
        task = self._task
        names = parameter_names(task.model, task.optimizer)
        frozen = {parameter: names[parameter] for parameter in self._flat.frozen}
        state = read_parameters(frozen).add(read_buffers(task.model))
        for block, slice_ in zip(self._flat.blocks, self._slices, strict=True):
            for parameter, where, values in pieces_in(block, slice_):
                order = memory_order(dense_strides(parameter))
                part = Slice(values.clone(), tuple(parameter.shape), order, where.start)
                state.tensors[f"{PARAMETERS}{names[parameter]}"] = part
        return state.add(self._optimizer.state(names))

    def load(self, state: State) -> None:
        task = self._task
        names = parameter_names(task.model, task.optimizer)
        # Every rank of a host writes the same to the same place; none may read before all have.
        write_parameters(names, state)
        write_buffers(task.model, state)
        self._optimizer.load(names, state)
        self._hosts.host.barrier()

    def close(self) -> None:
        self._optimizer.close()
        self._flat.release()
        self._hosts.free()


def _add_up_in_order(peers: Communicator, rows: Tensor, *, filled: int) -> None:
    """Collective. Add up row by row from the first host to the last, as a single host would."""
    total = torch.zeros_like(rows[0])
    if peers.rank > 0:
        peers.receive(total, peers.rank - 1)
    for row in rows[:filled]:
        total.add_(row)
    if peers.rank < peers.size - 1:
        peers.send(total, peers.rank + 1)
    peers.broadcast(total, peers.size - 1)
    rows[0].copy_(total)
