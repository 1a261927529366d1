"""`server`: rank 0 keeps the main network and does not train; the others train for it, in step.

Known elsewhere as the non-collective scheme, send and receive, or a parameter server. Workers send
their gradients, and rank 0 alone has an optimizer's state; or they send the changes of weights that
their own optimizers make of their shares of the gradient, and rank 0 adds the changes up. That is
the same only as far as an optimizer's step is linear in the gradient, and weights play no part in
it: for SGD without weight decay, with any momentum.
"""

import inspect
from dataclasses import dataclass
from typing import Literal, final

from torch.optim import SGD

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.errors import UsageError
from phalanx.exchange.flat import FlatParameters
from phalanx.exchange.rows import RowSum
from phalanx.state import Share, State
from phalanx.state.model import parameter_names, read_buffers, read_parameters
from phalanx.state.optimizer import OPTIMIZER, read_groups, read_optimizer
from phalanx.strategies.base import Outcome, Strategy, Task, Worker
from phalanx.strategies.building_blocks.closures import refuse_closure
from phalanx.strategies.building_blocks.parameter_server import (
    NOTHING,
    SERVER,
    Message,
    receive_all,
    send_all,
    serve_in_step,
    weights_for,
    workers_of,
)
from phalanx.strategies.building_blocks.part_gradients import PartGradients
from phalanx.strategies.building_blocks.rank_buffers import RankBuffers
from phalanx.strategies.building_blocks.whole_model import (
    WholeModel,
    broadcast_model,
    load_whole,
)
from phalanx.strategies.rules import check_bound, check_fields

Exchanged = Literal["gradients", "changes"]
#: What a state in which each worker has a share of the momentum is known by.
_SHARES = "server of changes"
_INSTEAD = "exchange 'gradients' instead"


@dataclass(frozen=True)
class Server(Strategy):
    """Gradients to rank 0 and weights back, once a step."""

    #: What workers send: their gradients, or the changes that their optimizers make of them.
    exchange: Exchanged = "gradients"

    def __post_init__(self) -> None:
        check_fields("server", self)

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("server", self, task, ranks=comm.size)
        refuse_closure(task.optimizer, strategy="server")
        if self.exchange == "gradients":
            return serve_in_step(comm, task)
        _check_linear(task)
        broadcast_model(comm, task.model)
        return ChangesServer(comm, task) if comm.rank == SERVER else ChangesWorker(comm, task)


def _check_linear(task: Task) -> None:
    """Refuse whatever makes of a sum of gradients something else than the sum of its changes."""
    kind = type(task.optimizer)
    # A class of torch's own step, such as the one without torch's compiler, is SGD as well.
    if not issubclass(kind, SGD) or inspect.unwrap(kind.step) is not inspect.unwrap(SGD.step):
        raise UsageError(
            "changes of weights add up to one step only if the optimizer is linear in the "
            f"gradient, as SGD is and {kind.__name__} need not be: take SGD, or {_INSTEAD}"
        )
    if any(group["weight_decay"] != 0 for group in task.optimizer.param_groups):
        raise UsageError(
            "every worker would let the weights decay by itself, and their changes would add up "
            f"to more: leave out weight_decay, or {_INSTEAD}"
        )


@final
class ChangesServer(Worker):
    """Rank 0: adds everybody's changes to the weights."""

    trains = False
    replicates = True

    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm = comm
        self._task = task
        self._flat = FlatParameters(task.model, rows=comm.size - 1)
        blocks = self._flat.blocks
        self._changes = [
            Message(row[: block.layout.length], rank, tag)
            for tag, block in enumerate(blocks)
            for rank, row in zip(workers_of(comm), block.rows, strict=True)
        ]
        self._weights = weights_for(workers_of(comm), self._flat)
        self._buffers = RankBuffers(task.model, comm, serving=SERVER + 1)
        self._sums = [RowSum(block.rows, slice(0, block.layout.length)) for block in blocks]

    def step(self, batch: Batch) -> Outcome:
        self._flat.attach(0)
        with phase("wait"):
            for block in self._flat.blocks:
                block.marks()[0].zero_()
                self._comm.allreduce(block.marks()[0], "maximum")
            receive_all(self._comm, self._changes)
        with phase("update"):
            for block, total in zip(self._flat.blocks, self._sums, strict=True):
                total.add_up()
                block.values.add_(block.gradients)
        with phase("exchange"):
            send_all(self._comm, self._weights)
            self._buffers.finish(batch.size)
        return NOTHING

    def sync(self) -> None:
        """Weights and statistics are the same everywhere already, as far as anybody noticed."""
        self._buffers.average()

    def state(self) -> State:
        """The weights; the workers have the momentum."""
        self.sync()
        names = parameter_names(self._task.model, self._task.optimizer)
        state = read_parameters(names).add(read_buffers(self._task.model))
        return state.add(read_groups(self._task.optimizer, names))

    def load(self, state: State) -> None:
        load_whole(self._task, state, entries=False)

    def close(self) -> None:
        self._flat.release()


@final
class ChangesWorker(Worker):
    """Any other rank: the change that its own optimizer makes of its share, for weights."""

    replicates = True

    def __init__(self, comm: Communicator, task: Task) -> None:
        self._comm = comm
        self._task = task
        self._flat = FlatParameters(task.model)
        self._whole_model = WholeModel(task, self._flat)
        self._buffers = RankBuffers(task.model, comm, serving=SERVER + 1)
        part = workers_of(comm).index(comm.rank)
        self._parts = PartGradients(
            task,
            self._flat,
            parts=range(part, part + 1),
            of=comm.size - 1,
            rows=[0],
            statistics=self._buffers,
        )
        self._marks = [block.marks()[0].clone() for block in self._flat.blocks]
        self._weights = weights_for([SERVER], self._flat)
        self._leave_momentum_to_the_first()

    def step(self, batch: Batch) -> Outcome:
        outcome = self._parts.compute(batch)
        with phase("wait"):
            # Where any worker has a gradient, all must step, if only to let their momentum act.
            for block, marks in zip(self._flat.blocks, self._marks, strict=True):
                self._comm.allreduce(marks.copy_(block.marks()[0]), "maximum")
        # Plain SGD does not look at the weights. From zero, it makes the change and nothing else.
        for block in self._flat.blocks:
            block.values.zero_()
        self._whole_model.update(self._marks)
        with phase("exchange"):
            send_all(self._comm, self._weights)
        with phase("wait"):
            receive_all(self._comm, self._weights)
        with phase("exchange"):
            self._buffers.finish(batch.size)
        return outcome

    def sync(self) -> None:
        """Weights and statistics are the same everywhere already, as far as anybody noticed."""
        self._buffers.average()

    def state(self) -> State:
        """This worker's share of the momentum."""
        self.sync()
        names = parameter_names(self._task.model, self._task.optimizer)
        state = read_optimizer(self._task.optimizer, names)
        shares = {name: Share(one, "sum") for name, one in state.under(OPTIMIZER)}
        state.tensors = {f"{OPTIMIZER}{name}": one for name, one in shares.items()}
        state.values["shared by"] = _SHARES
        return state

    def load(self, state: State) -> None:
        own = state.of_rank(self._comm.rank, size=self._comm.size, strategy=_SHARES)
        load_whole(self._task, own or state)
        if own is None:
            self._leave_momentum_to_the_first()

    def _leave_momentum_to_the_first(self) -> None:
        """A momentum from before is the whole one, and so one worker's is enough."""
        if self._comm.rank != workers_of(self._comm)[0]:
            for kept in self._task.optimizer.state.values():
                if kept.get("momentum_buffer") is not None:
                    # Added to the first one's, a negative zero leaves negative zeros as they are.
                    kept["momentum_buffer"].zero_().neg_()

    def close(self) -> None:
        self._flat.release()
