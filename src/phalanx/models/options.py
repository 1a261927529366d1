"""The options that built-in models take, and what each accepts; checked without torch."""

from collections.abc import Callable
from dataclasses import dataclass

from phalanx.errors import UsageError
from phalanx.models import initial

ACTIVATIONS = ("relu", "tanh", "sigmoid")
OUTPUT_ACTIVATIONS = ("none", "sigmoid", "tanh")


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


def check_output_activation(value: object) -> None:
    """Accept the name of what may follow the last layer."""
    if value not in OUTPUT_ACTIVATIONS:
        accepted = ", ".join(OUTPUT_ACTIVATIONS)
        raise UsageError(f"output_activation must be one of {accepted}, got {value!r}")


def check_standardise(value: object) -> None:
    """Accept True and False."""
    if not isinstance(value, bool):
        raise UsageError(f"standardise must be True or False, got {value!r}")


def check_init(value: object) -> None:
    """Accept the name of initial weights, perhaps with an argument after a colon."""
    initial.parse(value)


HIDDEN = Option("hidden", "widths of the hidden layers", check_hidden)
ACTIVATION = Option("activation", f"one of {', '.join(ACTIVATIONS)}", check_activation)
OUTPUT_ACTIVATION = Option(
    "output_activation", f"one of {', '.join(OUTPUT_ACTIVATIONS)}", check_output_activation
)
STANDARDISE = Option(
    "standardise", "standardise each sample's activations between layers", check_standardise
)

#: The option that every model takes, a user's own as well.
INIT = Option("init", f"initial weights: {initial.FORMS}", check_init)
