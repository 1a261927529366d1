"""`allreduce`: every rank holds the model; MPI_Allreduce adds up the gradients of a global batch.

Known elsewhere as the collective scheme, mirrored storage, Horovod or DDP. With fixed shards the
order of the sum matters, which MPI leaves open: the shards' gradients are then gathered everywhere
and added up in their order.

Options say how: by which of MPI's algorithms, during the backward pass, or in fewer bytes. Overlap
and compression go together; an algorithm goes with overlap where MPI has it for non-blocking sums
too, but not with compression, which adds up by itself. Between hosts gradients are exchanged during
the backward pass unless that is ruled out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from phalanx.clock import phase
from phalanx.comm.algorithm_names import AUTO, LIBNBC
from phalanx.comm.base import Communicator
from phalanx.comm.hosts import on_one_host
from phalanx.data.batches import Batch, cut
from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatParameters
from phalanx.exchange.rows import RowSum
from phalanx.state import State
from phalanx.state.model import parameter_names
from phalanx.strategies.base import Outcome, Strategy, Task, TextTable, Worker
from phalanx.strategies.building_blocks.across_ranks import AcrossRanks
from phalanx.strategies.building_blocks.chosen_exchange import make_exchange
from phalanx.strategies.building_blocks.closures import needs_closure, step_with_closure
from phalanx.strategies.building_blocks.exchanges import Exchange, way_of
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.rank_buffers import RankBuffers
from phalanx.strategies.building_blocks.sharded_buffers import ShardedBuffers
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    broadcast_model,
    load_whole,
    whole_state,
)
from phalanx.strategies.rules import check_bound, check_fields


@dataclass(frozen=True)
class Allreduce(Strategy):
    """One exchange of the flat gradient a step."""

    #: How MPI adds up: one of `phalanx.comm.algorithm_names.ALGORITHMS`.
    algorithm: str = AUTO
    #: `auto`, the name of the default: what is not said is found by what the first steps take.
    exchange: str | None = None
    #: Whether that may be something that rounds.
    lossy: bool = False
    #: Exchange gradients during the backward pass, as they come; None between hosts and GPUs, where
    #: it can.
    overlap: bool | None = None
    #: Exchange fewer bytes: one of `phalanx.exchange.compressions`.
    compress: str | None = None
    #: Of the matrices under `low-rank`; 2 if nobody says otherwise.
    compress_rank: int | None = None
    #: With overlap: about how much of the gradient is exchanged at a time; None by where it is.
    bucket_bytes: int | None = None

    def __post_init__(self) -> None:
        check_fields("allreduce", self)
        if self.bucket_bytes is not None and self.bucket_bytes < 1:
            raise UsageError(f"bucket_bytes must be at least 1, not {self.bucket_bytes}")

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("allreduce", self, task, ranks=comm.size)
        if task.shards is None:
            return AllreduceWorker(comm, task, self)
        return ShardedAllreduceWorker(comm, task, task.shards)


class AllreduceWorker(Worker):
    replicates = True

    def __init__(self, comm: Communicator, task: Task, options: Allreduce) -> None:
        self._comm, self._task = comm, task
        self._has_closure = needs_closure(task.optimizer)
        broadcast_model(comm, task.model)
        self._flat = FlatParameters(task.model)
        self._whole_model = WholeModel(task, self._flat)
        self._exchange = self._make_exchange(options)
        self._marks = [block.marks()[0].clone() for block in self._flat.blocks]
        self._buffers = RankBuffers(task.model, comm)
        self._gradients = PartGradients(
            task,
            self._flat,
            parts=range(comm.rank, comm.rank + 1),
            of=comm.size,
            rows=[0],
            statistics=self._buffers,
            before_last_pass=self._exchange.watch,
        )

    def _make_exchange(self, options: Allreduce) -> Exchange:
        suits = options.overlap is None and _suits(self._comm, self._task, options.algorithm)
        blocks = self._flat.blocks
        on_cpu = all(block.values.is_cpu for block in blocks)
        way = way_of(options, overlap=suits, on_cpu=on_cpu)
        make = partial(AcrossRanks, self._comm, blocks, algorithm=options.algorithm)
        return make_exchange(self._comm, blocks, way, make=make)

    def step(self, batch: Batch) -> Outcome:
        optimizer, loss = self._task.optimizer, self._task.loss
        if self._has_closure:
            evaluate = partial(self._exchanged, batch, self._whole_model.attach)
            return step_with_closure(self._comm, optimizer, loss=loss, evaluate=evaluate)
        return self._exchanged(batch, self._whole_model.update)

    def _exchanged(self, batch: Batch, then: Callable[[list[Tensor]], None]) -> Outcome:
        """Compute this rank's part and add up everybody's, for what comes then."""
        outcome = self._gradients.compute(batch)
        for block, marks in zip(self._flat.blocks, self._marks, strict=True):
            marks.copy_(block.marks()[0])
        with phase("exchange"):
            summed = self._exchange.finish()
        self._buffers.finish(batch.size)
        then(summed)
        # The exchange has made sums of this rank's marks, which are written only when they change.
        for block, marks in zip(self._flat.blocks, self._marks, strict=True):
            block.marks()[0].copy_(marks)
        return outcome

    def sync(self) -> None:
        """Weights and statistics are the same everywhere already, as far as anybody noticed."""
        self._buffers.average()

    def state(self) -> State:
        self.sync()
        return whole_state(self._task).add(self._exchange.state(self._names))

    def load(self, state: State) -> None:
        load_whole(self._task, state)
        self._exchange.load(self._names, state)

    @property
    def _names(self) -> dict[nn.Parameter, str]:
        return parameter_names(self._task.model, self._task.optimizer)

    def report(self) -> Sequence[TextTable]:
        return self._exchange.report()

    def close(self) -> None:
        self._exchange.close()
        self._flat.release()


def _suits(comm: Communicator, task: Task, algorithm: str) -> bool:
    """Collective. Whether gradients are exchanged during the backward pass if nobody says so: where
    they travel by themselves, as between GPUs, or between hosts; on one host nothing is gained."""
    if comm.size == 1 or task.compile or algorithm not in (AUTO, *LIBNBC):
        return False
    on_cpu = all(parameter.is_cpu for parameter in task.model.parameters())
    return comm.progresses or (on_cpu and not on_one_host(comm))


class ShardedAllreduceWorker(Worker):
    replicates = True

    def __init__(self, comm: Communicator, task: Task, shards: int) -> None:
        self._comm, self._task = comm, task
        self._has_closure = needs_closure(task.optimizer)
        parts = cut(shards, comm.size)
        self._mine = parts[comm.rank]
        self._counts = [part.stop - part.start for part in parts]
        broadcast_model(comm, task.model)
        self._flat = FlatParameters(task.model, rows=shards)
        self._sums = [
            RowSum(block.rows, slice(0, block.layout.length)) for block in self._flat.blocks
        ]
        self._whole_model = WholeModel(task, self._flat)
        self._sharded_buffers = ShardedBuffers(task.model, comm, shards=shards)
        mine = range(self._mine.start, self._mine.stop)
        self._gradients = PartGradients(
            task, self._flat, parts=mine, of=shards, rows=mine, statistics=self._sharded_buffers
        )

    def step(self, batch: Batch) -> Outcome:
        optimizer, loss = self._task.optimizer, self._task.loss
        if self._has_closure:
            evaluate = partial(self._exchanged, batch, self._whole_model.attach)
            return step_with_closure(self._comm, optimizer, loss=loss, evaluate=evaluate)
        return self._exchanged(batch, self._whole_model.update)

    def _exchanged(self, batch: Batch, then: Callable[[list[Tensor]], None]) -> Outcome:
        outcome = self._gradients.compute(batch)
        with phase("exchange"):
            for block, total in zip(self._flat.blocks, self._sums, strict=True):
                pairs = zip(block.messages(self._mine), block.messages(slice(None)), strict=True)
                for mine, everyone in pairs:
                    self._comm.allgather(mine, everyone, counts=self._counts)
                total.add_up()
            self._sharded_buffers.finish(batch.size)
        then([block.marks().amax(0) for block in self._flat.blocks])
        return outcome

    def sync(self) -> None:
        """Weights and statistics are the same everywhere already."""

    def state(self) -> State:
        return whole_state(self._task)

    def load(self, state: State) -> None:
        load_whole(self._task, state)

    def close(self) -> None:
        self._flat.release()
