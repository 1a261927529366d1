"""What does not go together in `local`. Without torch: rules are checked before ranks start."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from phalanx.errors import UsageError

if TYPE_CHECKING:
    from phalanx.strategies.rules import Choices

#: Who trains alone.
RANK, HOST = "rank", "host"
_EVERY = 8


def check_local(chosen: "Choices") -> None:
    """Raise UsageError for options of which one does nothing beside the others."""
    options, spell = chosen.options, chosen.spell
    every, pieces = options.get("every", _EVERY), options.get("pieces", 1)
    if options.get("outer_nesterov") and not options.get("outer_momentum"):
        raise UsageError(
            f"{spell('outer_nesterov')} looks ahead by a momentum, and there is none: leave it "
            f"out, or give {spell('outer_momentum')}, such as 0.9"
        )
    if pieces > every:
        raise UsageError(
            f"{spell('pieces')} {pieces} are sent in {every} steps, at most one after each: take "
            f"{every} or fewer, or more steps with {spell('every')}"
        )


def idle_alone(chosen: "Choices") -> Iterator[str]:
    """Options of `local` that do nothing on one rank, as long as it has no outer optimizer."""
    options = chosen.options
    outer = options.get("outer_momentum") or options.get("outer_rate", 1) != 1
    if "every" in options and not outer:
        yield "every"
    if options.get("pieces", 1) > 1:
        yield "pieces"
    if options.get("alone", RANK) != RANK:
        yield "alone"
