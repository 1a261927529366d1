"""`async`: a server that applies gradients as they come, first come, first applied.

Rank 0 keeps the main network and does not train. A global batch has a part for each worker, but no
worker has a part of its own: whoever is free asks for the next one, sends its gradient and gets,
with the next part, the weights as they are by then. A worker that finds no part left goes on to the
next batch. So a slow worker holds up nobody; it just computes fewer parts.

Every gradient is an update at the full learning rate, as is usual: the gradient of the loss over
the part's own samples, and so one update a part, not one a batch. Against a synchronous training,
the batch of an update is smaller, and updates are more by as many.

An update is stale by the updates that were applied since the weights that it was computed from.
`max_staleness` bounds that in batches: of batch t, parts are handed out only when all of batch
t - max_staleness - 1 and before are applied. With W workers no update is then stale by more than
(2 · max_staleness + 1) · W - 1 others. At 0 there is nothing asynchronous left, and the training is
that of `server`.

Why nothing hangs: let b be the first batch not applied in full. If all its parts are handed out,
some worker is computing one, and will send it. If not, nobody has been told that none is left, so
no worker is beyond b; requests for b or before are always answered at once, and every worker will
ask for b before it asks for anything later. So either a message is on its way to rank 0, or some
worker is computing. Rank 0 never waits for one worker alone, and its sends need nobody else.
A worker is told that none is left only after it has handed in its last part; so when rank 0 has
told all of them for the last batch, everything is applied.
"""

from dataclasses import dataclass

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.strategies.asynchronous.server import AsynchronousServer
from phalanx.strategies.asynchronous.worker import AsynchronousWorker
from phalanx.strategies.base import Strategy, Task, Worker
from phalanx.strategies.building_blocks.closures import refuse_closure
from phalanx.strategies.building_blocks.parameter_server import (
    SERVER,
    serve_in_step,
)
from phalanx.strategies.building_blocks.whole_model import (
    broadcast_model,
)
from phalanx.strategies.rules import check_bound, check_fields


@dataclass(frozen=True)
class Asynchronous(Strategy):
    """A gradient to rank 0 and the weights back, for each part of a batch."""

    #: How many batches a worker may be ahead of the first one that is not applied in full.
    max_staleness: int = 4
    #: Divide the learning rate of an update by 1 + its staleness.
    staleness_aware: bool = False

    def __post_init__(self) -> None:
        check_fields("async", self)

    def bind(self, comm: Communicator, task: Task) -> Worker:
        check_bound("async", self, task, ranks=comm.size)
        refuse_closure(task.optimizer, strategy="async")
        if self.max_staleness == 0:
            return serve_in_step(comm, task)
        groups = task.optimizer.param_groups
        if self.staleness_aware and not all("lr" in group for group in groups):
            raise UsageError(
                "staleness_aware divides the learning rate, and "
                f"{type(task.optimizer).__name__} has no 'lr': leave it out"
            )
        broadcast_model(comm, task.model)
        # Rank 0 listens to workers that may have nothing more to say: nobody else's messages, of
        # another training perhaps, must be taken for theirs.
        own = comm.split(0, comm.rank)
        if comm.rank == SERVER:
            return AsynchronousServer(
                own, task, lead=self.max_staleness, aware=self.staleness_aware
            )
        return AsynchronousWorker(own, task)
