"""The options that built-in models take, and what each accepts; checked without torch."""

from collections.abc import Callable
from dataclasses import dataclass

from phalanx.errors import UsageError

ACTIVATIONS = ("relu", "tanh", "sigmoid")


@dataclass(frozen=True)
class Option:
    """A keyword of a model's `build`; `check` raises a UsageError for a value it cannot use."""

    name: str
    summary: str
    check: Callable[[object], None]


def check_hidden(value: object) -> None:
    """Accept a list or tuple, perhaps empty, of whole numbers of 1 or more."""
    widths = value if isinstance(value, list | tuple) else [None]
    if not all(type(width) is int and width > 0 for width in widths):
        raise UsageError(
            f"hidden must be the widths of the hidden layers, whole numbers of 1 or more "
            f"such as (128, 64), got {value!r}"
        )


def check_activation(value: object) -> None:
    """Accept the name of an activation."""
    if value not in ACTIVATIONS:
        raise UsageError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {value!r}")


HIDDEN = Option("hidden", "widths of the hidden layers", check_hidden)
ACTIVATION = Option("activation", f"one of {', '.join(ACTIVATIONS)}", check_activation)
