"""What becomes of a training that loses a rank, or has one that stands still."""

from phalanx.options import Option
from phalanx.settings.intervals import check_duration

ON_FAILURE = Option(
    "on_failure",
    str,
    "When a rank is lost: stop; shrink: the others go on; restart: all do, from the last "
    "checkpoint (docs/failures.md).",
    default="stop",
    choices=("stop", "shrink", "restart"),
)
RESTARTS = Option(
    "restarts",
    int,
    "--on-failure restart: how often at most.",
    default_words="3",
    at_least=1,
)
REPLACE = Option("replace", bool, "--on-failure shrink: start another rank for each that is lost.")
STALL_AFTER = Option(
    "stall_after",
    str,
    "A rank that has stood still for so long is named, with the Python stack of every rank, and "
    "treated as lost (--on-failure): 30s, 5m, 1h or never.",
    default="5m",
    rule=check_duration,
)
DEFAULT_RESTARTS = 3
#: Strategies of which any host has the whole training, so that no rank takes a part along.
SHRINKING = ("allreduce", "central")
