"""`gather`: rank 0 scatters batches, gathers gradients, steps and broadcasts weights.

The textbook scheme, each phase a verb of MPI's own. Only rank 0 reads samples, and only it has an
optimizer's state; it computes a part of every batch like the others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, Weigh, cut
from phalanx.data.split import Samples
from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatParameters
from phalanx.exchange.rows import RowSum
from phalanx.state import State
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.building_blocks.closures import refuse_closure
from phalanx.strategies.building_blocks.parameter_server import SERVER
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.rank_buffers import make_buffers
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    broadcast_model,
    load_whole,
    whole_state,
)
from phalanx.strategies.rules import check_bound, check_fields


@dataclass(frozen=True)
class Gather(Strategy):
    """Scatter, compute, gather, step, broadcast."""

    by_layer: bool = False

    def __post_init__(self) -> None:
        check_fields("gather", self)

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("gather", self, task, ranks=comm.size)
        refuse_closure(task.optimizer, strategy="gather")
        return GatherWorker(comm, task, by_layer=self.by_layer)


@final
class GatherWorker(Worker):
    replicates = True

    def __init__(self, comm: Communicator, task: Task, *, by_layer: bool) -> None:
        self._comm = comm
        self._task = task
        parts = comm.size if task.shards is None else task.shards
        shares = cut(parts, comm.size)
        mine = shares[comm.rank]
        self._counts = [share.stop - share.start for share in shares]
        count = self._counts[comm.rank]
        broadcast_model(comm, task.model)
        # Rank 0's own rows are the first, where MPI then leaves them.
        rows = parts if comm.rank == SERVER else max(1, count)
        self._flat = FlatParameters(task.model, rows=rows)
        self._whole_model = WholeModel(task, self._flat)
        self._buffers = make_buffers(task.model, comm, shards=task.shards)
        self._pieces = _layers(task.model, self._flat) if by_layer else None
        self._scatter = Scatter(comm, shares, of=parts)
        self._gradients = PartGradients(
            task,
            self._flat,
            parts=range(mine.start, mine.stop),
            of=parts,
            rows=range(count),
            statistics=self._buffers,
        )
        self._sums = [
            RowSum(block.rows, slice(0, block.layout.length)) for block in self._flat.blocks
        ]

    def step(self, batch: Batch) -> Outcome:
        outcome = self._gradients.compute(self._scatter.share_out(batch))
        self._gather()
        if self._comm.rank == SERVER:
            self._update()
        with phase("broadcast"):
            for block in self._flat.blocks:
                self._comm.broadcast(block.values, SERVER)
        with phase("exchange"):
            self._buffers.finish(batch.size)
        return outcome

    def _gather(self) -> None:
        count = self._counts[self._comm.rank]
        if self._pieces is None:
            with phase("gather"):
                for block in self._flat.blocks:
                    pairs = zip(
                        block.messages(slice(0, count)), block.messages(slice(None)), strict=True
                    )
                    for mine, everyone in pairs:
                        self._comm.gather(mine, everyone, SERVER, self._counts)
            return
        for name, rows in self._pieces:
            with phase(name):
                # A piece of every row is in no one place: MPI gets a copy, and gives one.
                whole = torch.empty_like(rows, memory_format=torch.contiguous_format)
                self._comm.gather(rows[:count].contiguous(), whole, SERVER, self._counts)
                if self._comm.rank == SERVER:
                    rows.copy_(whole)

    def _update(self) -> None:
        with phase("update"):
            for total in self._sums:
                total.add_up()
            self._whole_model.update([block.marks().amax(0) for block in self._flat.blocks])

    def sync(self) -> None:
        """Weights and statistics are the same everywhere already, as far as anybody noticed."""
        self._buffers.average()

    def state(self) -> State:
        """Rank 0 has all of it."""
        self.sync()
        return whole_state(self._task) if self._comm.rank == SERVER else State()

    def load(self, state: State) -> None:
        load_whole(self._task, state, entries=self._comm.rank == SERVER)

    def close(self) -> None:
        self._flat.release()


def _layers(model: nn.Module, flat: FlatParameters) -> list[tuple[str, Tensor]]:
    """The columns of each layer's gradient, layers counted from 1, and then those of all marks."""
    found: list[tuple[str, Tensor]] = []
    places = {
        id(parameter): (block, start)
        for block in flat.blocks
        for parameter, start in zip(block.layout.parameters, block.layout.starts, strict=True)
    }
    layers = [module for module in model.modules() if any(True for _ in _own(module, places))]
    for number, module in enumerate(layers, start=1):
        for parameter in _own(module, places):
            block, start = places.pop(id(parameter))  # a tied one belongs to the first that has it
            piece = block.rows[:, start : start + parameter.numel()]
            found.append((f"gather layer {number}", piece))
    return [*found, *(("gather marks", block.marks()) for block in flat.blocks)]


def _own(module: nn.Module, places: Mapping[int, object]) -> Iterator[nn.Parameter]:
    """Those of a module's own parameters that are trained."""
    return (one for one in list(module.parameters(recurse=False)) if id(one) in places)


@dataclass(frozen=True)
class LocalParts:
    """This rank's parts of a global batch, out of samples that it was sent."""

    batch: Batch
    samples: Samples
    #: Where they begin in the global batch.
    start: int

    @property
    def size(self) -> int:
        """The number of samples over all parts, on all ranks."""
        return self.batch.size

    @property
    def step(self) -> int:
        """Its number in the training."""
        return self.batch.step

    def weight(self, weigh: Weigh) -> float:
        """What the targets of all samples weigh, which every rank knows."""
        return self.batch.weight(weigh)

    def part(self, index: int, of: int) -> Samples:
        """The samples of one part, of which this rank must have been sent all."""
        whole = cut(self.size, of)[index]
        here = slice(whole.start - self.start, whole.stop - self.start)
        assert here.start >= 0, "a part that another rank has"
        assert here.stop <= len(self.samples.targets), "a part that another rank has"
        return Samples(self.samples.inputs[here], self.samples.targets[here])


@final
class Scatter:
    """Sends every rank the samples of its parts."""

    def __init__(self, comm: Communicator, shares: list[slice], *, of: int) -> None:
        self._comm = comm
        self._shares = shares
        self._of = of
        self._inputs = torch.empty(0)

    def share_out(self, batch: Batch) -> LocalParts:
        """Collective. This rank's parts of a batch, which rank 0 alone reads.

        Inputs stay what they are until the next call; targets stay for good.
        """
        comm = self._comm
        parts = [*cut(batch.size, self._of), slice(batch.size, batch.size)]
        starts = [parts[share.start].start for share in self._shares]
        counts = [stop - start for start, stop in pairwise([*starts, batch.size])]
        whole = self._read(batch) if comm.rank == SERVER else None
        mine = self._room(batch, counts[comm.rank]) if whole is None else _first(whole, counts[0])
        with phase("scatter inputs"):
            comm.scatter(whole and whole.inputs, mine.inputs, SERVER, counts)
        with phase("scatter labels"):
            comm.scatter(whole and whole.targets, mine.targets, SERVER, counts)
        return LocalParts(batch, mine, start=starts[comm.rank])

    @staticmethod
    def _read(batch: Batch) -> Samples:
        with phase("load"):
            samples = batch.whole()
            if not all(isinstance(one, Tensor) for one in samples):
                raise UsageError(
                    "strategy 'gather' sends ranks one tensor of inputs and one of targets: make "
                    "samples of these two, or take another strategy, such as 'central'"
                )
            return Samples(*(tensor.contiguous() for tensor in samples))

    def _room(self, batch: Batch, count: int) -> Samples:
        """Memory for so many samples; for inputs the same at every call, if it is large enough."""
        # No sample has to be read to learn what samples look like.
        like = batch.source.take(batch.indices[:0], dtype=batch.dtype)
        like = like if batch.device is None else like.to(batch.device)
        inputs = self._inputs
        fits = (inputs.dtype, inputs.shape[1:], inputs.device) == (
            like.inputs.dtype,
            like.inputs.shape[1:],
            like.inputs.device,
        )
        if not fits or len(inputs) < count:
            self._inputs = like.inputs.new_empty((count, *like.inputs.shape[1:]))
        targets = like.targets.new_empty((count, *like.targets.shape[1:]))
        return Samples(self._inputs[:count], targets)


def _first(samples: Samples, count: int) -> Samples:
    """Rank 0's own samples, which are where they belong already."""
    return Samples(samples.inputs[:count], samples.targets[:count])
