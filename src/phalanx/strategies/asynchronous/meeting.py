"""What the server and the workers of `async` do when all of them meet."""

from phalanx.comm.base import Communicator
from phalanx.exchange.flat import FlatParameters
from phalanx.strategies.base import Task
from phalanx.strategies.building_blocks.parameter_server import (
    SERVER,
)
from phalanx.strategies.building_blocks.whole_model import (
    average_buffers,
)


def share_weights(comm: Communicator, task: Task, flat: FlatParameters) -> None:
    """Collective. Rank 0's weights for everybody, and the mean of the workers' statistics."""
    flat.attach(0)
    for block in flat.blocks:
        comm.broadcast(block.values, SERVER)
    average_buffers(comm, task.model, serving=1)


def close(comm: Communicator, flat: FlatParameters) -> None:
    flat.release()
    comm.free()
