"""One rank's stage of a pipeline: its layers, their gradients, their update."""

from collections.abc import Sequence
from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn

from phalanx.clock import phase
from phalanx.data.batches import Batch
from phalanx.exchange.flat import FlatParameters
from phalanx.models.in_parts import device_of
from phalanx.state import State
from phalanx.state.model import (
    BUFFERS,
    parameter_names,
    read_buffers,
    read_parameters,
    write_buffers,
    write_parameters,
)
from phalanx.state.optimizer import (
    add_entries,
    forget,
    read_groups,
    write_entries,
    write_groups,
)
from phalanx.state.parts import Stored
from phalanx.strategies.base import Outcome, Task
from phalanx.strategies.building_blocks.clipping import chunk_count, chunk_squares, clip_factor
from phalanx.strategies.building_blocks.in_pieces import mark_in_pieces
from phalanx.strategies.building_blocks.initial_parts import (
    InitialParts,
    all_of,
    give_up,
    make_room,
    read_optimizer_parts,
    read_weights,
)
from phalanx.strategies.building_blocks.rank_buffers import make_buffers
from phalanx.strategies.building_blocks.replica_groups import Groups
from phalanx.strategies.building_blocks.whole_model import WholeModel
from phalanx.strategies.pipeline.cutting import Cut
from phalanx.strategies.pipeline.holdings import Holdings
from phalanx.strategies.pipeline.layout import put_channels_first
from phalanx.strategies.pipeline.micro_batches import Part
from phalanx.strategies.pipeline.stage_passes import StagePasses


@final
class Stage:
    """The layers of this rank, and all that is needed to train them."""

    def __init__(
        self,
        groups: Groups,
        task: Task,
        *,
        layers: Sequence[nn.Module],
        cut: Cut,
        initial: InitialParts | None = None,
    ) -> None:
        """Of a model in parts, this stage is made from what it is at first, and connected later."""
        members = groups.members
        runs = [cut.stage(number) for number in range(members.size)]
        stages = [nn.ModuleList(layers[run.start : run.stop]) for run in runs]
        self.cut = cut
        self._groups = groups
        self._clip_norm = task.clip_norm
        self._module = stages[members.rank]
        self._task = task
        self._names = parameter_names(task.model, task.optimizer)
        self._own = {one: self._names[one] for one in self._module.parameters()}
        for number in cut.channels_first:  # on every rank, or weights would be read in two orders
            put_channels_first(stages[number], task.optimizer)
        self._holdings = None if initial is not None else Holdings(members, stages)
        self._release()  # before there is a second copy of this stage's weights
        self._flat = FlatParameters(self._module)
        if initial is not None:
            make_room(self._own)  # for what is not trained
            initial.fill(self._own, all_of)
        self._buffers = make_buffers(self._module, groups.peers, shards=task.shards)
        # It would clip by the norm of this stage's gradients alone.
        self._whole_model = WholeModel(replace(task, clip_norm=None), self._flat)
        self._passes: StagePasses | None = None
        if initial is None:
            self.connect(cut)

    def connect(self, cut: Cut) -> None:
        """Get to know what passes between stages."""
        self.cut = cut
        self._passes = StagePasses(
            self._groups.members,
            self._task,
            layers=list(self._module),
            borders=cut.borders,
            statistics=self._buffers,
            channels_first=self._groups.members.rank in cut.channels_first,
        )

    @property
    def passes(self) -> StagePasses:
        """The passes through this stage; it must be connected."""
        assert self._passes is not None
        return self._passes

    @property
    def is_connected(self) -> bool:
        """Whether it is known what passes between stages."""
        return self._passes is not None

    def step(self, batch: Batch, parts: Sequence[Part]) -> Outcome:
        """Collective. One step on a batch, of which these are the micro-batches of this replica."""
        self._release()
        self._flat.attach(0)
        outcome = self.passes.run(batch, parts)
        self._flat.collect(0)
        marks = [block.marks()[0] for block in self._flat.blocks]
        mine = [marked.clone() for marked in marks]
        with phase("exchange"):
            self._exchange(batch)
        self._whole_model.update(marks)
        # The exchange has made sums of this rank's marks, which are written only when they change.
        for marked, before in zip(marks, mine, strict=True):
            marked.copy_(before)
        return outcome

    def _exchange(self, batch: Batch) -> None:
        """Collective. Add up over the replicas, and clip by the norm over all stages."""
        peers = self._groups.peers
        if peers.size > 1:
            for block in self._flat.blocks:
                for message in block.messages(0):
                    peers.allreduce(message)
        self._buffers.finish(batch.size)
        if self._clip_norm is not None:
            factor = clip_factor(self._squares(), self._clip_norm)
            for block in self._flat.blocks:
                block.gradients.mul_(factor)

    def _squares(self) -> Tensor:
        """Collective. The squared norm of each stage's gradient."""
        members = self._groups.members
        squares = torch.zeros(members.size, dtype=torch.float64, device=device_of(self._task.model))
        for block in self._flat.blocks:
            squares[members.rank] += chunk_squares(block, slice(0, chunk_count(block))).sum()
        members.allgather(squares[members.rank : members.rank + 1].clone(), squares)
        return squares

    def _release(self) -> None:
        """Keep this stage's weights alone, and what the optimizer knows of them."""
        if self._holdings is not None:
            self._holdings.release()
        if len(self._own) < len(self._names):
            mark_in_pieces(self._task.optimizer)
            forget(self._task.optimizer, [one for one in self._names if one not in self._own])

    def state(self) -> State:
        """Collective. Copies of this stage's weights and buffers, and of its optimizer's state; of
        a model in parts, the weights and the state themselves."""
        copy = self._holdings is not None
        self.average()
        state = read_parameters(self._own, copy=copy)
        mine = {id(buffer) for buffer in self._module.buffers()}
        buffers = read_buffers(self._task.model).tensors
        for name, buffer in self._task.model.named_buffers():
            if id(buffer) in mine:
                state.tensors[f"{BUFFERS}{name}"] = buffers[f"{BUFFERS}{name}"]
        groups = read_groups(self._task.optimizer, self._names)
        return state.add(add_entries(groups, self._task.optimizer, self._own, copy=copy))

    def load(self, state: State) -> None:
        """Take what this stage needs from a whole state; all of it, if all weights are here."""
        task = self._task
        everything = self._holdings is not None and self._holdings.complete
        write_parameters(self._names if everything else self._own, state)
        write_buffers(task.model, state)
        write_groups(task.optimizer, state)
        write_entries(task.optimizer, self._own, state)

    def read(self, stored: Stored) -> None:
        """Take what this stage needs from files."""
        read_weights(self._task.model, self._own, stored, all_of)
        read_optimizer_parts(self._task.optimizer, self._own, stored, all_of)

    def close(self) -> None:
        """Give the weights memory of their own again; those of a model in parts are gone."""
        if self._holdings is None:
            give_up(self._own)
        else:
            self._flat.release()

    def average(self) -> None:
        """Collective. Have the same running statistics in all replicas."""
        self._buffers.average()

    def collect(self) -> None:
        """Collective. Have the weights and buffers of all stages on every rank, unless the model is
        in parts."""
        if self._holdings is None:
            self.average()
        elif not self._holdings.complete:
            self.average()
            self._holdings.collect()
