"""How often something is done in a training: every so many steps, minutes or epochs, or never."""

import re
from dataclasses import dataclass
from typing import final

from phalanx.errors import UsageError

_SECONDS = {"s": 1, "m": 60, "h": 3600}
_FORM = "500 (steps), 30s, 5m, 1h, '1 epoch' or never"


@final
@dataclass(frozen=True)
class Interval:
    """One of the three; none of them for never."""

    steps: int | None = None
    seconds: float | None = None
    epochs: int | None = None


def parse_duration(text: str, where: str) -> float | None:
    """The seconds that a user writes as 30s, 5m or 1h; None for never, and for 0."""
    found = re.fullmatch(r"(\d{1,9})\s*([smh])", text.strip())
    if text.strip() in ("never", "0"):
        return None
    if found is None:
        raise UsageError(f"{where} {text}: takes 30s, 5m, 1h or never")
    return int(found[1]) * _SECONDS[found[2]] or None


def check_duration(text: str, where: str) -> None:
    """Raise UsageError for what is no duration."""
    parse_duration(text, where)


def parse_interval(text: str, *, where: str) -> Interval:
    """What a user writes, as an interval."""
    if text == "never":
        return Interval()
    found = re.fullmatch(r"(\d{1,9})\s*(s|m|h|steps?|epochs?)?", text.strip())
    if found is None or int(found[1]) == 0:
        raise UsageError(f"{where} {text}: takes {_FORM}")
    number, unit = int(found[1]), found[2] or "steps"
    if unit in _SECONDS:
        return Interval(seconds=number * _SECONDS[unit])
    return Interval(epochs=number) if unit.startswith("epoch") else Interval(steps=number)
