"""Which strategy trains a task, which parameters, and this rank's worker for it."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.models.in_parts import device_of, is_in_parts
from phalanx.strategies.base import Loss, Objective, Strategy, Task, Worker
from phalanx.strategies.building_blocks.closures import needs_closure
from phalanx.strategies.building_blocks.in_pieces import check_whole
from phalanx.strategies.building_blocks.sliced_optimizer import hung_on, is_elementwise
from phalanx.strategies.registry import (
    SPLIT_MODELS,
    check,
    default_strategy,
    gpu_obstacle,
    make,
    name_of,
    resolve,
    workers,
)
from phalanx.strategies.scaling_rules import check_scaling
from phalanx.train.compute import compute_deterministically
from phalanx.train.losses import as_loss, as_objective


def make_task(
    model: nn.Module,
    optimizer: Optimizer,
    loss: Loss | str | Callable[[Any, Any], Tensor] | None,
    objective: Objective | Callable[[nn.Module, Any], Any] | None,
    how: tuple[Any, ...],
) -> Task:
    """A task that makes a loss small, by default cross-entropy, or an objective.

    `how` has all that a Task asks for besides, in its order.
    """
    whole = as_objective(objective, loss)
    if whole is not None:
        return replace(Task(model, optimizer, whole.as_loss(), *how), objective=whole)
    return Task(model, optimizer, as_loss("cross-entropy" if loss is None else loss), *how)


def choose(strategy: Strategy | str | None, comm: Communicator, task: Task) -> Strategy:
    """The strategy that was asked for, or the one that suits the ranks and the optimizer."""
    if isinstance(strategy, Strategy):
        return strategy
    if strategy is None:
        on_cpu = device_of(task.model).type == "cpu"
        steps_slices = is_elementwise(task.optimizer) and hung_on(task.optimizer) is None
        central = steps_slices and on_cpu
        return make(default_strategy(comm.size, central=central))
    name = resolve(strategy)
    check(name, comm.size)
    return make(name)


def bind(strategy: Strategy, comm: Communicator, task: Task) -> Worker:
    """Collective. This rank's worker for a task."""
    name = name_of(strategy)
    if is_in_parts(task.model):
        check_in_parts(name, task)
    check_whole(task.optimizer)
    obstacle = None if device_of(task.model).type == "cpu" else gpu_obstacle(name, _set(strategy))
    if obstacle is not None:
        raise UsageError(f"{obstacle}, or keep the model in CPU memory")
    _check_device(device_of(task.model), comm.size)
    if task.scale is not None:
        check_scaled(name, strategy, task.optimizer)
    if name != "single":
        check_held(task.model, task.optimizer)
    if comm.size > 1 or task.shards is not None:
        check_fixed_weights(task.model)
    if task.shards is not None:
        compute_deterministically(device_of(task.model))
    return strategy.bind(comm, task)


def check_in_parts(name: str, task: Task) -> None:
    """Refuse what takes a whole model, if it has parameters without values."""
    if name not in SPLIT_MODELS:
        raise UsageError(
            f"the model's parameters are on the meta device, where they have no values, and "
            f"strategy '{name}' trains whole models: take {' or '.join(SPLIT_MODELS)}, which take "
            "one that phalanx.in_parts(FUNCTION) has made, or make it as ever"
        )
    if task.objective is not None:
        raise UsageError(
            "a model in parts is trained by a loss of its outputs, and not by an objective, which "
            "is tried out on a whole model: give a loss"
        )


def check_scaled(name: str, strategy: Strategy, optimizer: Optimizer) -> None:
    """Refuse what float16 does not go with."""
    asked = "autocast=torch.float16"
    check_scaling(name, _set(strategy), asked)
    if needs_closure(optimizer):
        raise UsageError(
            f"{asked} leaves out steps whose gradients are not finite, and "
            f"{type(optimizer).__name__} asks for several gradients a step: take torch.bfloat16"
        )


def _check_device(device: torch.device, ranks: int) -> None:
    """Refuse devices that nothing here is known about."""
    if ranks > 1 and device.type not in ("cpu", "cuda", "meta"):
        raise UsageError(
            f"the model is on '{device.type}', where one rank trains alone: start one, or put the "
            "model in CPU memory or on a GPU of CUDA or ROCm"
        )


def _set(strategy: Strategy) -> dict[str, Any]:
    """Its options that are not at their defaults."""
    if not is_dataclass(strategy):
        return {}
    values = {one.name: getattr(strategy, one.name) for one in fields(strategy)}
    return {
        one.name: values[one.name] for one in fields(strategy) if values[one.name] != one.default
    }


def part_count(strategy: Strategy, comm: Communicator, task: Task) -> int:
    """In how many parts a batch is computed."""
    options: dict[str, Any] = vars(strategy) if is_dataclass(strategy) else {}
    count = workers(name_of(strategy), comm.size, options)
    return task.accumulate * (count if task.shards is None else task.shards)


Trained = tuple[list[str], list[list[int]]]


def check_parameters(model: nn.Module, optimizer: Optimizer, *, known: Trained) -> None:
    """Refuse to go on with other parameters than the strategy knows of."""
    if trained_parameters(model, optimizer) != known:
        raise UsageError(
            "parameters have been frozen, set free, added or taken away since this Trainer was "
            "made: make a new one (gather_optimizer_state() before has it go on from there)"
        )


def trained_parameters(model: nn.Module, optimizer: Optimizer) -> Trained:
    """Which parameters get gradients, and which the optimizer steps, group by group."""
    free = [name for name, one in model.named_parameters() if one.requires_grad]
    return free, [[id(one) for one in group["params"]] for group in optimizer.param_groups]


def check_fixed_weights(model: nn.Module) -> None:
    """Refuse layers whose forward pass changes weights, by the samples that a rank has seen."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
            raise UsageError(
                f"'{name or type(module).__name__}' has max_norm={module.max_norm:g}, and so its "
                "forward pass changes the weights of the words that it sees, other ones in each "
                "part of a batch: leave out max_norm, or train on one rank without shards"
            )


def check_held(model: nn.Module, optimizer: Optimizer) -> None:
    """Refuse what no strategy would exchange, and so would be another on every rank."""
    known = set(model.parameters())
    if any(one not in known for group in optimizer.param_groups for one in group["params"]):
        raise UsageError(
            "the optimizer holds a parameter that is not the model's: make it an attribute of the "
            "model (of an nn.Module around it), so that the ranks share it"
        )
