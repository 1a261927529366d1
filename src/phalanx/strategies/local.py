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
gradient. An average counts as a step of its own: with `outer_momentum`, the way from the last
common weights to the average is added to a decaying sum of the ways before it, and the weights take
that sum instead (as in SlowMo and DiLoCo).
"""

from dataclasses import dataclass

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.exchange.flat import FlatParameters
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    average_buffers,
    broadcast_model,
)
from phalanx.strategies.rules import check_bound, check_fields


@dataclass(frozen=True)
class Local(Strategy):
    """Average the weights every so many steps."""

    #: Steps from one average to the next; reading the weights averages too.
    every: int = 8
    #: How much of the last average's change the next one repeats, from 0 to below 1.
    outer_momentum: float = 0.0

    def __post_init__(self) -> None:
        check_fields("local", self)

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("local", self, task, ranks=comm.size)
        return LocalWorker(comm, task, self)


class LocalWorker(Worker):
    def __init__(self, comm: Communicator, task: Task, options: Local) -> None:
        self._comm = comm
        self._task = task
        self._every = options.every
        self._alone = 0  # steps since all ranks had the same weights
        broadcast_model(comm, task.model)
        self._flat = FlatParameters(task.model)
        self._average = Average(comm, self._flat, momentum=options.outer_momentum)
        self._whole_model = WholeModel(task, self._flat)
        self._gradients = PartGradients(
            task, self._flat, parts=range(comm.rank, comm.rank + 1), of=comm.size, rows=[0]
        )
        # Until a part has samples, nothing is known of parameters that the model does not use.
        self._used = [block.marks()[0].clone().fill_(1) for block in self._flat.blocks]

    def step(self, batch: Batch) -> Outcome:
        outcome = self._gradients.compute(batch)
        self._update(had_samples=outcome.outputs is not None)
        self._alone += 1
        if self._alone == self._every:
            self._meet()
        return outcome

    def _update(self, *, had_samples: bool) -> None:
        for block, used in zip(self._flat.blocks, self._used, strict=True):
            block.gradients.mul_(self._comm.size)
            if had_samples:
                used.copy_(block.marks()[0])
        self._whole_model.update(self._used)

    def _meet(self) -> None:
        with phase("exchange"):
            self._average.take()
        self._alone = 0

    def sync(self) -> None:
        """Average what has been trained since the last average, and running statistics."""
        if self._alone > 0:
            self._flat.attach(0)  # weights that a caller has replaced since are the ones to average
            self._meet()
        average_buffers(self._comm, self._task.model)


class Average:
    """The mean of all ranks' weights, or with momentum a step beyond it, in place."""

    def __init__(self, comm: Communicator, flat: FlatParameters, *, momentum: float) -> None:
        self._comm = comm
        self._values = [block.values for block in flat.blocks]
        self._momentum = momentum
        # The last common weights and the sum of changes: twice the weights' memory, if at all.
        self._outer = [
            (values, values.clone(), values.new_zeros(values.shape))
            for values in self._values
            if momentum > 0
        ]

    def take(self) -> None:
        """Collective. Give every rank the same weights."""
        for values in self._values:
            self._comm.allreduce(values)
            values.div_(self._comm.size)
        for values, common, changes in self._outer:
            values.sub_(common)
            changes.mul_(self._momentum).add_(values)
            common.add_(changes)
            values.copy_(common)
