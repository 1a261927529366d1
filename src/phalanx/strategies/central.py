"""`central`: one copy of parameters and optimizer state per host; every rank updates its slice.

Parameters and gradients live in memory that the ranks of a host share. Each rank writes its
gradient there; after a barrier each sums its own slice over all gradients and steps the optimizer
on that slice alone; a second barrier publishes the new weights: everybody reads the same memory.
Nothing is broadcast, and neither the optimizer's work nor its memory grows with the ranks.

Between hosts each slice is exchanged by the ranks that own it, one a host, so that the network
carries every byte as seldom as it can: during the backward pass, as gradients come, and in fewer
bytes if that is asked for. With fixed shards it is done afterwards, in the order of the shards.

On GPUs, whose memory ranks do not share, slices travel: `sharded_model.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.comm.hosts import Hosts, arrange
from phalanx.comm.launch.process import release_freed_memory
from phalanx.comm.shared import SharedMemory, room_for
from phalanx.data.batches import Batch, cut
from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatParameters, layouts, zeros
from phalanx.exchange.rows import SMALL, RowSum, SmallSum, add_up_in_order
from phalanx.state import State
from phalanx.state.model import parameter_names, write_buffers, write_parameters
from phalanx.strategies.base import Outcome, Strategy, Task, TextTable, Worker
from phalanx.strategies.building_blocks.between_hosts import BetweenHosts
from phalanx.strategies.building_blocks.chosen_exchange import make_exchange
from phalanx.strategies.building_blocks.clipping import chunk_count, chunk_squares, clip_factor
from phalanx.strategies.building_blocks.exchanges import Exchange, Way, way_of
from phalanx.strategies.building_blocks.part_gradients import PartGradients, nothing
from phalanx.strategies.building_blocks.rank_buffers import make_buffers
from phalanx.strategies.building_blocks.sliced_optimizer import (
    SlicedOptimizer,
    check_elementwise,
    check_nothing_hung_on,
)
from phalanx.strategies.building_blocks.whole_model import broadcast_model
from phalanx.strategies.rules import check_bound, check_fields
from phalanx.strategies.sharded_model import ShardedModel, read_slices


@dataclass(frozen=True)
class Central(Strategy):
    """One copy a host, stepped slice by slice."""

    #: `auto`, the name of the default: what is not said is found by what the first steps take.
    exchange: str | None = None
    #: Whether that may be something that rounds.
    lossy: bool = False
    #: Exchange gradients between hosts during the backward pass, as they come; None where it can.
    overlap: bool | None = None
    #: Exchange fewer bytes between hosts: one of `phalanx.exchange.compressions`.
    compress: str | None = None
    #: Of the matrices under `low-rank`; 2 if nobody says otherwise.
    compress_rank: int | None = None
    #: With overlap: about how much of the gradient is exchanged at a time; None for 256 KiB.
    bucket_bytes: int | None = None

    def __post_init__(self) -> None:
        check_fields("central", self)

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_elementwise(task.optimizer, strategy="central")
        check_nothing_hung_on(task.optimizer, strategy="central")
        check_bound("central", self, task, ranks=comm.size)
        if not (comm.shares_memory and all(one.is_cpu for one in task.model.parameters())):
            self._check_apart()
            return ShardedModel(comm, task)
        hosts = arrange(comm)
        if hosts.host.size == comm.size and self.compress is not None and comm.size > 1:
            hosts.free()
            raise UsageError(
                "strategy 'central' sends nothing on one host, where ranks share memory, which "
                "leaves nothing to compress: leave it out, or take strategy 'allreduce'"
            )
        in_order = task.shards is not None  # and so after the backward pass, and as they are
        way = None if in_order else way_of(self, overlap=not task.compile)
        return CentralWorker(hosts, task, way)

    def _check_apart(self) -> None:
        for name in ("lossy", "overlap", "compress", "compress_rank"):
            if getattr(self, name):
                raise UsageError(
                    f"{name} of strategy 'central' is for gradients in host memory: leave it out "
                    "on GPUs, or take strategy 'allreduce'"
                )


class CentralWorker(Worker):
    def __init__(self, hosts: Hosts, task: Task, way: Way | None) -> None:
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
        self._buffers = make_buffers(task.model, comm, shards=task.shards)
        self._cut_slices()
        self._between: Exchange | None = None
        if way is not None and hosts.host.size < comm.size:
            make = partial(BetweenHosts, hosts, self._flat.blocks, self._slices)
            self._between = make_exchange(comm, self._flat.blocks, way, make=make)
        self._gradients = PartGradients(
            task,
            self._flat,
            parts=mine,
            of=shards,
            rows=[1] if self._small else [part - rows.start for part in mine],
            statistics=self._buffers,
            before_last_pass=nothing if self._between is None else self._between.watch,
        )
        self._lent = False
        self.lend()

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
        self._memory = memory = SharedMemory(self._hosts.host, room)
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

    def report(self) -> Sequence[TextTable]:
        return () if self._between is None else self._between.report()

    def lend(self) -> None:
        """From here to the next step every rank's model is its own: ranks that share one would
        each repeat what all of them do to it."""
        if not self._lent and self._hosts.everyone.size > 1:
            self._flat.lend(self._memory.own)
            self._lent = True

    def _take_back(self) -> None:
        """Collective. Take over what has been done to the model meanwhile, alike on every rank."""
        if not self._lent:
            return
        names = parameter_names(self._task.model, self._task.optimizer)
        changed = [names[parameter] for parameter in self._flat.changed()]
        everyone = self._hosts.everyone.allgather_objects(changed)
        for name in dict.fromkeys(name for names in everyone for name in names):
            without = [rank for rank, names in enumerate(everyone) if name not in names]
            if without:
                raise UsageError(
                    f"the weights of '{name}' have been changed by a rank, and not by rank "
                    f"{without[0]}: do the same on every rank"
                )
        if changed:
            self._flat.take_back(write=self._hosts.host.rank == 0)
            self._hosts.host.barrier()
        else:
            self._flat.take_back(write=False)
        self._memory.forget()
        self._lent = False

    def step(self, batch: Batch) -> Outcome:
        self._take_back()
        outcome = self._gradients.compute(batch)
        with phase("wait"):
            # Else they meet elsewhere: in MPI's sum, or in those between hosts.
            if not self._small and self._between is None:
                self._hosts.host.barrier()
        with phase("exchange"):
            marks = self._add_up()
            self._buffers.finish(batch.size)
        with phase("update"):
            pairs = zip(self._flat.blocks, self._slices, strict=True)
            mine = [block.gradients[slice_] for block, slice_ in pairs]
            if self._task.unscale(mine, self._hosts.everyone):
                if self._task.clip_norm is not None:
                    self._clip(self._task.clip_norm)
                self._optimizer.step(marks)
        with phase("wait"):
            self._hosts.host.barrier()
        return outcome

    def _add_up(self) -> list[Tensor] | None:
        """Make the first row, in this rank's slices, the sum over all parts on all hosts; which
        parameters any part has a gradient for, None for all of them, as is usual."""
        if self._between is not None:
            marks = self._between.finish()
            return None if all(bool(one.all()) for one in marks) else marks
        if self._hosts.peers.size == 1:
            for total in self._sums:
                total.add_up()
        else:
            for block, slice_ in zip(self._flat.blocks, self._slices, strict=True):
                add_up_in_order(self._hosts.peers, block.rows[:, slice_], filled=self._filled)
        return self._read_marks()

    def _read_marks(self) -> list[Tensor] | None:
        peers = self._hosts.peers
        if peers.size == 1 and all(bool(marks.all()) for marks in self._marks):
            return None
        marks = [one.amax(0) for one in self._marks]
        if peers.size > 1:
            for marked in marks:
                peers.allreduce(marked, "maximum")
        return marks

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
        """Everybody reads the same weights and statistics already, as far as anybody noticed."""
        self._buffers.average()

    def state(self) -> State:
        """This rank's slices of the parameters and of what the optimizer keeps about them."""
        lent = self._lent
        self._take_back()
        self.sync()
        task = self._task
        names = parameter_names(task.model, task.optimizer)
        state = read_slices(task.model, self._flat, self._slices, names=names)
        if lent:  # else a step follows, and taking back looks at every weight
            self.lend()
        state.add(self._optimizer.state(names))
        return state if self._between is None else state.add(self._between.state(names))

    def load(self, state: State) -> None:
        self._take_back()
        task = self._task
        names = parameter_names(task.model, task.optimizer)
        # Every rank of a host writes the same to the same place; none may read before all have.
        write_parameters(names, state)
        write_buffers(task.model, state)
        self._optimizer.load(names, state)
        if self._between is not None:
            self._between.load(names, state)
        self._hosts.host.barrier()
        self.lend()

    def close(self) -> None:
        self._take_back()
        if self._between is not None:
            self._between.close()
        self._optimizer.close()
        self._flat.release()
        self._hosts.free()
