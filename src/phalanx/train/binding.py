"""Which strategy trains a task, and this rank's worker for it: what does not fit is refused."""

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.strategies.base import Strategy, Task, Worker
from phalanx.strategies.building_blocks.in_pieces import check_whole
from phalanx.strategies.building_blocks.sliced_optimizer import is_elementwise
from phalanx.strategies.registry import (
    check,
    default_strategy,
    gpu_obstacle,
    make,
    name_of,
)
from phalanx.train.compute import device_of
from phalanx.train.parameters import check_held


def choose(strategy: Strategy | str | None, comm: Communicator, task: Task) -> Strategy:
    """The strategy that was asked for, or the one that suits the ranks and the optimizer."""
    if isinstance(strategy, Strategy):
        return strategy
    if strategy is None:
        on_cpu = device_of(task.model).type == "cpu"
        central = is_elementwise(task.optimizer) and on_cpu
        return make(default_strategy(comm.size, central=central))
    check(strategy, comm.size)
    return make(strategy)


def bind(strategy: Strategy, comm: Communicator, task: Task) -> Worker:
    """Collective. This rank's worker for a task."""
    name = name_of(strategy)
    check_whole(task.optimizer)
    obstacle = None if device_of(task.model).type == "cpu" else gpu_obstacle(name)
    if obstacle is not None:
        raise UsageError(f"{obstacle}, or keep the model in CPU memory")
    if name != "single":
        check_held(task.model, task.optimizer)
    return strategy.bind(comm, task)
