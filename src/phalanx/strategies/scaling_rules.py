"""What scaled losses, which float16 takes, do not go with. Nothing here imports torch."""

from collections.abc import Mapping
from typing import Any

from phalanx.errors import UsageError
from phalanx.wording import Spelling, argument

#: Strategies whose ranks know the whole sum of a step's gradients, or can ask each other, before
#: anybody steps.
SCALED = ("single", "allreduce", "central")


def check_scaling(
    name: str, options: Mapping[str, Any], asked: str, *, spell: Spelling = argument
) -> None:
    """Raise UsageError for a strategy, or an option of it, that float16 does not go with; `asked`
    is how it was asked for."""
    if name not in SCALED:
        raise UsageError(
            f"{asked} is not for strategy '{name}': float16 takes losses that are scaled, and "
            f"steps that all ranks leave out together, which {', '.join(SCALED[:-1])} and "
            f"{SCALED[-1]} have: take one of those, or bfloat16, which has float32's range"
        )
    if options.get("compress") is not None:
        raise UsageError(
            f"{asked} scales gradients by all that float16 holds, which leaves "
            f"{spell('compress')} no room: leave out one of the two, or take bfloat16"
        )
