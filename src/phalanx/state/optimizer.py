"""An optimizer's part of a state: what it keeps about each parameter, and its hyper-parameters."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.errors import UsageError
from phalanx.exchange.views import dense_strides
from phalanx.state.parts import Part, State, Stored
from phalanx.wording import a

OPTIMIZER = "optimizer/"
#: How an optimizer computes, which is not a part of what it has computed.
_HOW = ("fused", "foreach", "capturable", "differentiable")
#: Entries of torch's elementwise optimizers that are one number a parameter, whatever its shape.
SCALARS = ("step", "mu_product", "eta", "mu")

Names = Mapping[nn.Parameter, str]


def read_optimizer(optimizer: Optimizer, names: Names) -> State:
    """Copies of all that an optimizer keeps about these parameters, and its hyper-parameters."""
    return add_entries(read_groups(optimizer, names), optimizer, names)


def add_entries(state: State, optimizer: Optimizer, names: Names, *, copy: bool = True) -> State:
    """Add what an optimizer keeps about these parameters to a state with its groups."""
    for parameter, name in names.items():
        for entry, value in optimizer.state.get(parameter, {}).items():
            copied = value.clone() if isinstance(value, Tensor) and copy else value
            put_entry(state, name, entry, copied)
    return state


def put_entry(state: State, name: str, entry: str, value: Part | Any) -> None:
    """Add what an optimizer keeps about a parameter under a name: a tensor, or a plain value."""
    if value is None or isinstance(value, bool | int | float | str):
        state.values["optimizer"]["entries"].setdefault(name, {})[entry] = value
    elif isinstance(value, list | tuple | dict | set):
        raise UsageError(
            f"the optimizer keeps {a(value)} '{entry}' about '{name}', and a state "
            "holds tensors and single numbers: use another optimizer to save or move a training"
        )
    else:
        state.tensors[f"{OPTIMIZER}{name}/{entry}"] = value


def read_groups(optimizer: Optimizer, names: Names) -> State:
    """The hyper-parameters of each parameter group."""
    groups = [
        {
            "parameters": [names[one] for one in group["params"] if one in names],
            "options": {
                name: _plain(value, option=name)
                for name, value in group.items()
                if name not in ("params", "param_names", *_HOW)
            },
        }
        for group in optimizer.param_groups
    ]
    kind = type(optimizer).__name__
    return State(values={"optimizer": {"kind": kind, "groups": groups, "entries": {}}})


def _plain(value: Any, *, option: str) -> Any:
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(one, option=option) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UsageError(f"the optimizer's option '{option}' is {a(value)}, which a state cannot hold")


def write_groups(optimizer: Optimizer, state: State | Stored) -> None:
    """Give each parameter group the hyper-parameters that it had."""
    saved = state.values["optimizer"]
    if saved["kind"] != type(optimizer).__name__:
        raise UsageError(
            f"the state is that of {saved['kind']}, and the optimizer is "
            f"{type(optimizer).__name__}: make the same one"
        )
    groups = saved["groups"]
    if len(groups) != len(optimizer.param_groups):
        raise UsageError(
            f"the state has {len(groups)} parameter groups, and the optimizer "
            f"{len(optimizer.param_groups)}: give it the same ones"
        )
    for group, before in zip(optimizer.param_groups, groups, strict=True):
        for name, value in before["options"].items():
            now = group.get(name)
            if isinstance(now, Tensor):
                now.fill_(value)
            else:
                group[name] = tuple(value) if isinstance(now, tuple) else value


def write_entries(optimizer: Optimizer, names: Names, state: State) -> None:
    """Have an optimizer keep about these parameters what a whole state says, and nothing else."""
    found = entries_by_parameter(state)
    groups = {one: group for group in optimizer.param_groups for one in group["params"]}
    for parameter, name in names.items():
        optimizer.state.pop(parameter, None)
        if name in found:
            kept = {entry: like(value, parameter) for entry, value in found[name].items()}
            optimizer.state[parameter] = place_counters(kept, parameter, groups.get(parameter, {}))


def entries_by_parameter(state: State) -> dict[str, dict[str, Any]]:
    """What a whole state says of each parameter that an optimizer knew, by the parameter's name."""
    found: dict[str, dict[str, Any]] = {}
    for path, value in state.under(OPTIMIZER):
        name, _, entry = path.rpartition("/")
        found.setdefault(name, {})[entry] = value
    for name, values in state.values["optimizer"]["entries"].items():
        found.setdefault(name, {}).update(values)
    return found


def like(value: Any, parameter: Tensor) -> Any:
    """A copy of an entry, in memory of the same order as its parameter: bits may depend on it."""
    if not isinstance(value, Tensor):
        return value
    if value.shape != parameter.shape:
        return value.clone()
    copy = torch.empty_strided(
        value.shape, dense_strides(parameter), dtype=value.dtype, device=parameter.device
    )
    return copy.copy_(value)


def place_counters(
    kept: dict[str, Any], parameter: Tensor, group: dict[str, Any]
) -> dict[str, Any]:
    """Have counters where torch wants them: in host memory, unless one kernel does the step."""
    if group.get("fused") or group.get("capturable"):
        moved = {name: kept[name].to(parameter.device) for name in SCALARS if name in kept}
        return kept | moved
    return kept


def forget(optimizer: Optimizer, parameters: Iterable[nn.Parameter]) -> None:
    """Drop what an optimizer keeps about parameters that another rank steps."""
    for parameter in parameters:
        optimizer.state.pop(parameter, None)
