"""How often a training writes a checkpoint, and how many of them stay."""

from typing import Any

from phalanx.options import Option
from phalanx.settings.intervals import parse_interval


def _check(value: Any, where: str) -> None:
    parse_interval(str(value), where=where)


CHECKPOINT_EVERY = Option(
    "checkpoint_every",
    str | int,
    "How often to write a checkpoint, for --resume: 500 (steps), 30s, 5m, '1 epoch'; also one at "
    "the end. Or never.",
    default="5m",
    rule=_check,
)
KEEP = Option("keep", int, "How many checkpoints stay: the newest ones.", default=2, at_least=1)
