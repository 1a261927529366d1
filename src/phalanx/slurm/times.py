"""A job's time, as Slurm writes it or as people do."""

import re

from phalanx.errors import UsageError
from phalanx.settings.intervals import parse_duration

#: Slurm's own: minutes, minutes:seconds, hours:minutes:seconds; days before a dash, then hours.
_MINUTES = re.compile(r"(\d{1,6})(?::(\d{1,2}))?")
_HOURS = re.compile(r"(\d{1,5}):(\d{1,2}):(\d{1,2})")
_DAYS = re.compile(r"(\d{1,4})-(\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2}))?")


def parse_time(text: str) -> int:
    """The seconds of a time such as 90 (minutes), 2:00:00, 1-12 (days and hours), 30m or 2h."""
    if found := _MINUTES.fullmatch(text):
        seconds = _seconds(minutes=found[1], seconds=found[2])
    elif found := _HOURS.fullmatch(text):
        seconds = _seconds(hours=found[1], minutes=found[2], seconds=found[3])
    elif found := _DAYS.fullmatch(text):
        seconds = _seconds(days=found[1], hours=found[2], minutes=found[3], seconds=found[4])
    elif re.fullmatch(r"\d+\s*[smh]", text):
        seconds = round(parse_duration(text, "--time") or 0)
    else:
        raise UsageError(
            f"--time {text}: takes minutes, H:MM:SS or D-HH as Slurm does, or 30m and 2h"
        )
    if not seconds:
        raise UsageError(f"--time {text}: a job needs some time")
    return seconds


def _seconds(**parts: str | None) -> int:
    of = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
    return sum(int(value or 0) * of[name] for name, value in parts.items())


def slurm_time(seconds: int) -> str:
    """A time as Slurm takes it, H:MM:SS."""
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
