"""The names of initial weights, such as `uniform:0.12`, read without torch.

`phalanx.models.initialise` sets the weights that they stand for.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from phalanx.errors import UsageError
from phalanx.wording import unknown

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


def check(text: str, _spelled: str) -> None:
    """Raise a UsageError for what is neither known nor accepted."""
    parse(text)


def parse(text: str) -> Initial:
    """Read NAME or NAME:ARGUMENT; raise a UsageError for what is neither known nor accepted."""
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
