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

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.exchange.flat import FlatParameters
from phalanx.state import Share, State
from phalanx.state.model import PARAMETERS, parameter_names
from phalanx.state.optimizer import OPTIMIZER, SCALARS
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    average_buffers,
    broadcast_model,
    load_whole,
    whole_state,
)
from phalanx.strategies.rules import check_bound, check_fields

#: What a state in which every rank has weights of its own is known by.
_SHARES = "local"


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
        if self._alone == 0:
            self._average.begin()
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

    def state(self) -> State:
        """What is this rank's own, until it meets the others, is its share in a mean."""
        average_buffers(self._comm, self._task.model)
        state = whole_state(self._task)
        own = [PARAMETERS, OPTIMIZER] if self._alone else [OPTIMIZER]
        for name, tensor in state.tensors.items():
            if name.startswith(tuple(own)) and name.rpartition("/")[2] not in SCALARS:
                assert isinstance(tensor, Tensor)
                state.tensors[name] = Share(tensor, "mean")
        state.values |= {"shared by": _SHARES, "steps since average": self._alone}
        return state.add(State({name: one.clone() for name, one in self._outer()}))

    def _outer(self) -> Iterator[tuple[str, Tensor]]:
        """What the outer momentum needs, by parameter: the same on all ranks."""
        names = parameter_names(self._task.model, self._task.optimizer)
        average = self._average
        for kind, kept in (("common", average.common), ("changes", average.changes)):
            for block, flat in zip(self._flat.blocks, kept, strict=False):
                for parameter, one in zip(block.layout.parameters, block.shaped(flat), strict=True):
                    yield f"strategy/{kind}/{names[parameter]}", one

    def load(self, state: State) -> None:
        """Without this rank's own, all start from the mean, as if they had just met."""
        own = state.of_rank(self._comm.rank, size=self._comm.size, strategy=_SHARES)
        load_whole(self._task, own or state)
        self._flat.attach(0)
        self._alone = 0 if own is None else int(own.values["steps since average"])
        for name, one in self._outer():
            if name in state.tensors:
                one.copy_(state.tensor(name))
            else:
                one.zero_()

    def close(self) -> None:
        self._flat.release()


class Average:
    """The mean of all ranks' weights, or with momentum a step beyond it, in place."""

    def __init__(self, comm: Communicator, flat: FlatParameters, *, momentum: float) -> None:
        self._comm = comm
        self._values = [block.values for block in flat.blocks]
        self._momentum = momentum
        #: The last common weights and the sum of changes: twice the weights' memory, if at all.
        self.common = [values.clone() for values in self._values if momentum > 0]
        self.changes = [torch.zeros_like(values) for values in self.common]

    def begin(self) -> None:
        """The ranks part from here: with the weights that they have now, whoever set them."""
        for values, common in zip(self._values, self.common, strict=False):
            common.copy_(values)

    def take(self) -> None:
        """Collective. Give every rank the same weights."""
        for values in self._values:
            self._comm.allreduce(values)
            values.div_(self._comm.size)
        outer = zip(self._values, self.common, self.changes, strict=False)
        for values, common, changes in outer:
            values.sub_(common)
            changes.mul_(self._momentum).add_(values)
            values.copy_(common.add_(changes))
