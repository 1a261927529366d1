"""`local`: ranks train alone and average their weights every few steps.

Known elsewhere as local SGD, weight averaging or federated averaging. Between two averages nothing
is exchanged: a rank steps its own optimizer on its own part of every global batch. Fewer exchanges
are bought with other results than those of one rank, the more so the longer ranks train alone.

A rank's gradient is what its part contributes to the loss of the global batch, times the number of
ranks. That is the mean over its own samples if all parts are of one size; it also is right if they
are not, or if the loss is a sum, since the mean over all ranks is always the gradient of the global
batch. Averaging after every step therefore equals `single`, for every optimizer whose step is
linear in the gradient: SGD, with momentum and weight decay too. A rank without samples steps with a
gradient of zero, which its momentum and weight decay call for.

The optimizer's state belongs to a rank and is never exchanged. `clip_norm` clips each rank's own
gradient.

Options make an average a step of an outer optimizer, as SlowMo and DiLoCo have it, or exchange it
in fewer bytes, or in pieces while training goes on (`outer_steps.py`). And a replica that trains
alone may be all ranks of a host: they add up their gradients in every step, and so stay the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.exchange.flat import FlatParameters
from phalanx.state import Share, State
from phalanx.state.model import BUFFERS, PARAMETERS, parameter_names
from phalanx.state.optimizer import OPTIMIZER, SCALARS
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.building_blocks.closures import refuse_closure
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    broadcast_model,
    load_whole,
    whole_state,
)
from phalanx.strategies.local.meetings import Mean, Meetings, Names
from phalanx.strategies.local.outer_steps import OuterSteps
from phalanx.strategies.local.pieces import OuterOptimizer
from phalanx.strategies.local.replicas import Replicas, arrange
from phalanx.strategies.local.rules import RANK
from phalanx.strategies.local.shown import Shown
from phalanx.strategies.rules import check_bound, check_fields

#: What a state in which every rank has weights of its own is known by.
_SHARES = "local"


@dataclass(frozen=True)
class Local(Strategy):
    """Average the weights every so many steps."""

    #: Steps from one average to the next.
    every: int = 8
    #: How far towards the average to go, or beyond it.
    outer_rate: float = 1.0
    #: How much of the last average's change the next one repeats, from 0 to below 1.
    outer_momentum: float = 0.0
    #: Look ahead by the momentum, as DiLoCo does.
    outer_nesterov: bool = False
    #: Exchange fewer bytes: one of `phalanx.exchange.compressions`.
    compress: str | None = None
    #: Of the matrices under `low-rank`; 2 if nobody says otherwise.
    compress_rank: int | None = None
    #: More than one: exchange the weights in so many pieces, each while training goes on.
    pieces: int = 1
    #: Who trains alone: a `rank`, or the ranks of a `host` together.
    alone: str = RANK

    def __post_init__(self) -> None:
        check_fields("local", self)

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("local", self, task, ranks=comm.size)
        refuse_closure(task.optimizer, strategy="local")
        return LocalWorker(arrange(comm, self.alone), task, self)

    @property
    def takes_means(self) -> bool:
        """Whether nothing is asked for but the mean of all ranks' weights."""
        return self == Local(every=self.every)


class LocalWorker(Worker):
    def __init__(self, replicas: Replicas, task: Task, options: Local) -> None:
        self._replicas, self._task = replicas, task
        self._comm = comm = replicas.everyone
        self._every = options.every
        self._steps = 0  # steps of the round that is not over
        self._together = True  # whether all ranks have the same weights
        self._shown: Shown | None = None
        broadcast_model(comm, task.model)
        self._flat = FlatParameters(task.model)
        self._meetings = self._make_meetings(options)
        self._whole_model = WholeModel(task, self._flat)
        self._gradients = PartGradients(
            task, self._flat, parts=range(comm.rank, comm.rank + 1), of=comm.size, rows=[0]
        )
        # Until a part has samples, nothing is known of parameters that the model does not use.
        self._used = [block.marks()[0].clone().fill_(1) for block in self._flat.blocks]

    def _make_meetings(self, options: Local) -> Meetings:
        if options.takes_means:
            return Mean(self._comm, self._flat, every=self._every)
        return OuterSteps(
            self._replicas.leaders,
            self._replicas.replica,
            self._flat,
            options,
            outer=OuterOptimizer(
                options.outer_rate, options.outer_momentum, options.outer_nesterov
            ),
            place=(self._comm.rank, self._comm.size),
            shares=_SHARES,
        )

    def step(self, batch: Batch) -> Outcome:
        self._take_back()
        outcome = self._gradients.compute(batch)
        if self._together:
            self._meetings.part()
        self._update(self._add_up())
        self._steps += 1
        with phase("exchange"):
            self._together = self._meetings.after(self._steps)
        self._steps %= self._every
        return outcome

    def _add_up(self) -> Sequence[Tensor]:
        """Collective. Make the gradient that of the whole replica; what got one."""
        marks = [block.marks()[0] for block in self._flat.blocks]
        if self._replicas.replica.size == 1:
            return marks
        marks = [one.clone() for one in marks]  # a rank's own are written only when they change
        with phase("exchange"):
            for block, one in zip(self._flat.blocks, marks, strict=True):
                self._replicas.replica.allreduce(block.gradients)
                self._replicas.replica.allreduce(one)
        return marks

    def _update(self, marks: Sequence[Tensor]) -> None:
        for block in self._flat.blocks:
            block.gradients.mul_(self._replicas.count)
        if any(bool(one.any()) for one in marks):  # else nobody had samples
            for used, one in zip(self._used, marks, strict=True):
                used.copy_(one)
        self._whole_model.update(self._used)

    def sync(self) -> None:
        """Show the mean of what the ranks have; each goes on from its own."""
        if self._shown is None:
            self._flat.attach(0)  # weights that a caller has replaced since are the ones to average
            with phase("exchange"):
                self._shown = Shown(
                    self._replicas, self._flat, self._task.model, together=self._together
                )

    def _take_back(self) -> None:
        """Collective. Have every rank's own again, if the mean was shown meanwhile."""
        if self._shown is not None:
            self._flat.attach(0)
            if not self._shown.take_back():  # whoever has changed the mean wants all to go on there
                self._steps, self._together = 0, True
            self._shown = None

    def state(self) -> State:
        """What is this rank's own, until it meets the others, is its share in a mean."""
        was_shown = self._shown is not None
        self._take_back()
        state = whole_state(self._task)
        own = [OPTIMIZER, BUFFERS] if self._together else [PARAMETERS, OPTIMIZER, BUFFERS]
        for name, tensor in state.tensors.items():
            if name.startswith(tuple(own)) and name.rpartition("/")[2] not in SCALARS:
                assert isinstance(tensor, Tensor)
                if tensor.is_floating_point() or tensor.is_complex():
                    state.tensors[name] = Share(tensor, "mean")
        if was_shown:
            self.sync()
        state.values |= {
            "shared by": _SHARES,
            "steps since average": self._steps,
            "together": self._together,
        }
        return state.add(self._meetings.state(self._names))

    @property
    def _names(self) -> Names:
        return parameter_names(self._task.model, self._task.optimizer)

    def load(self, state: State) -> None:
        """Without this rank's own, all start from the mean, as if they had just met."""
        self._shown = None
        own = state.of_rank(self._comm.rank, size=self._comm.size, strategy=_SHARES)
        load_whole(self._task, own or state)
        self._flat.attach(0)
        self._steps, self._together = 0, True
        if own is not None:
            self._steps = int(own.values["steps since average"]) % self._every
            self._together = bool(own.values.get("together", self._steps == 0))
        self._meetings.load(self._names, state, own=own)

    def close(self) -> None:
        self._meetings.close()
        self._flat.release()
        self._replicas.free()
