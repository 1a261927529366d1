"""A model's part of a state: its parameters and buffers, by name."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.errors import UsageError
from phalanx.state.parts import State

PARAMETERS, BUFFERS = "parameters/", "buffers/"


def parameter_names(model: nn.Module, optimizer: Optimizer) -> dict[nn.Parameter, str]:
    """What the parameters of a model are called, and those that the optimizer holds besides."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for number, group in enumerate(optimizer.param_groups):
        for index, parameter in enumerate(group["params"]):
            names.setdefault(parameter, f"group {number}, parameter {index}")
    return names


def read_parameters(
    names: Mapping[nn.Parameter, str], *, prefix: str = PARAMETERS, copy: bool = True
) -> State:
    """These parameters, as copies unless told otherwise."""
    found = ((f"{prefix}{name}", one.detach()) for one, name in names.items())
    return State({name: one.clone() if copy else one for name, one in found})


def read_buffers(model: nn.Module) -> State:
    """Copies of a model's buffers, those that files leave out as well."""
    return State({f"{BUFFERS}{name}": one.detach().clone() for name, one in model.named_buffers()})


def write_parameters(names: Mapping[nn.Parameter, str], state: State) -> None:
    """Give parameters the values of a whole state, in the memory that they have."""
    _write(((f"{PARAMETERS}{name}", parameter) for parameter, name in names.items()), state)


def write_buffers(model: nn.Module, state: State) -> None:
    """Give buffers the values of a whole state."""
    _write(((f"{BUFFERS}{name}", buffer) for name, buffer in model.named_buffers()), state)


@torch.no_grad()
def _write(named: Iterable[tuple[str, Tensor]], state: State) -> None:
    for name, tensor in named:
        value = state.tensor(name)
        if value.shape != tensor.shape or value.dtype != tensor.dtype:
            raise UsageError(
                f"'{name}' is {_look(value)} in the state and {_look(tensor)} here: it is the "
                "state of another model"
            )
        tensor.copy_(value)


def _look(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
