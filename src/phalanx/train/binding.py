"""Which strategy trains a task, which parameters, and this rank's worker for it."""

from torch import nn
from torch.optim import Optimizer

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


def trained_parameters(model: nn.Module, optimizer: Optimizer) -> tuple[list[str], list[list[int]]]:
    """Which parameters get gradients, and which the optimizer steps, group by group."""
    free = [name for name, one in model.named_parameters() if one.requires_grad]
    return free, [[id(one) for one in group["params"]] for group in optimizer.param_groups]


def check_held(model: nn.Module, optimizer: Optimizer) -> None:
    """Refuse what no strategy would exchange, and so would be another on every rank."""
    known = set(model.parameters())
    if any(one not in known for group in optimizer.param_groups for one in group["params"]):
        raise UsageError(
            "the optimizer holds a parameter that is not the model's: make it an attribute of the "
            "model (of an nn.Module around it), so that the ranks share it"
        )
