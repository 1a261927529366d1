"""Initial weights by name, such as `uniform:0.12`; names are read without torch.

The weights of all linear and convolution layers are drawn anew from torch's random state, in the
order of definition, and their biases are zero. `uniform` draws biases as it draws weights. What
other layers have, BatchNorm for one, stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from phalanx.errors import UsageError
from phalanx.wording import unknown

if TYPE_CHECKING:
    from torch import Tensor, nn

Fan: TypeAlias = Literal["fan_in", "fan_out"]

#: The model's own initial weights.
OWN = "torch"

#: What stands after each name's colon.
_NEEDS_NUMBER = {"uniform": "uniform:0.12", "normal": "normal:0.01"}
_TAKES_GAIN = ("xavier-uniform", "xavier-normal", "orthogonal")
_TAKES_FAN = ("kaiming-uniform", "kaiming-normal")
_TAKES_NOTHING = ("zeros", OWN)
NAMES = (*_NEEDS_NUMBER, *_TAKES_GAIN, *_TAKES_FAN, *_TAKES_NOTHING)
_FANS: dict[str, Fan] = {"fan-in": "fan_in", "fan-out": "fan_out"}

#: For help texts.
FORMS = (
    "uniform:BOUND, normal:DEVIATION, xavier-uniform[:GAIN], xavier-normal[:GAIN], "
    "orthogonal[:GAIN], kaiming-uniform[:FAN] and kaiming-normal[:FAN] (fan-in or fan-out), "
    "zeros, torch (the model's own)"
)


@dataclass(frozen=True)
class Initial:
    """A name and what stood after its colon, or the default."""

    name: str
    number: float = 1.0
    fan: Fan = "fan_in"


def parse(text: object) -> Initial:
    """Read NAME or NAME:ARGUMENT; raise a UsageError for what is neither known nor accepted."""
    if not isinstance(text, str):
        raise UsageError(f"init must be a name such as uniform:0.12, got {text!r}")
    name, colon, argument = text.partition(":")
    if name not in NAMES:
        raise unknown("init", name, known=NAMES)
    if name in _NEEDS_NUMBER and not colon:
        raise UsageError(f"init {name} needs a number after a colon: {_NEEDS_NUMBER[name]}")
    if not colon:
        return Initial(name)
    if name in _TAKES_NOTHING:
        raise UsageError(f"init {name} takes nothing after a colon, got '{text}'")
    if name in _TAKES_FAN:
        if argument not in _FANS:
            raise UsageError(f"init {name} takes fan-in or fan-out after a colon, got '{text}'")
        return Initial(name, fan=_FANS[argument])
    return Initial(name, number=_positive(argument, text))


def _positive(argument: str, text: str) -> float:
    try:
        number = float(argument)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise UsageError(f"init takes a number above 0 after the colon, got '{text}'")
    return number


def initialise(model: nn.Module, text: str) -> None:
    """Set a model's weights, which must be there to be set; `torch` leaves all as it is."""
    from torch.nn import init

    initial = parse(text)
    if initial.name == OWN:
        return
    fill = _filling(initial)
    layers = _layers(model, text)
    for layer in layers:
        fill(layer.weight)
        if layer.bias is not None:
            (fill if initial.name == "uniform" else init.zeros_)(layer.bias)


def _layers(model: nn.Module, text: str) -> list[nn.Linear | nn.modules.conv._ConvNd]:
    """The layers to initialise; none at all, or weights made from others, are refused."""
    from torch import nn
    from torch.nn.modules.conv import _ConvNd
    from torch.nn.parameter import is_lazy

    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear | _ConvNd)]
    if not layers:
        raise UsageError(f"init {text}: the model has no linear or convolution layer")
    for layer in layers:
        if not isinstance(layer.weight, nn.Parameter) or is_lazy(layer.weight):
            raise UsageError(
                f"init {text}: a {type(layer).__name__} has no weights to set, because they are "
                "lazy or made from others; initialise them in the model's own function"
            )
    return layers


def _filling(initial: Initial) -> Callable[[Tensor], Tensor]:
    from torch.nn import init

    number, fan = initial.number, initial.fan
    fillings: dict[str, Callable[[Tensor], Tensor]] = {
        "uniform": lambda tensor: init.uniform_(tensor, -number, number),
        "normal": lambda tensor: init.normal_(tensor, std=number),
        "xavier-uniform": lambda tensor: init.xavier_uniform_(tensor, gain=number),
        "xavier-normal": lambda tensor: init.xavier_normal_(tensor, gain=number),
        "orthogonal": lambda tensor: init.orthogonal_(tensor, gain=number),
        "kaiming-uniform": lambda tensor: init.kaiming_uniform_(
            tensor, mode=fan, nonlinearity="relu"
        ),
        "kaiming-normal": lambda tensor: init.kaiming_normal_(
            tensor, mode=fan, nonlinearity="relu"
        ),
        "zeros": init.zeros_,
    }
    return fillings[initial.name]
