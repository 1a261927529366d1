"""Horovod's environment variables, read when a job starts to use it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """What the environment asks for."""

    #: Where rank 0 writes its timeline.
    timeline: str | None = None
    mark_cycles: bool = False
    #: Seconds after which a tensor that ranks wait for is reported; 0 for never.
    stall_warning: float = 60.0
    #: Seconds after which it ends the job; 0 for never.
    stall_shutdown: float = 0.0
    #: Bytes up to which tensors travel together.
    fusion_threshold: int = 64 << 20
    #: Seconds that the background thread leaves between two looks while it waits for other ranks.
    cycle: float = 0.001
    #: The fewest ranks that go on when others are lost, and how often that may happen.
    min_ranks: int = 1
    reset_limit: int | None = None


#: What `phalanx run --min-np` and `--reset-limit` set; Horovod's launcher keeps them to itself.
MIN_NP, RESET_LIMIT = "PHALANX_MIN_NP", "PHALANX_RESET_LIMIT"


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of an environment, by default that of this process now."""
    source = os.environ if environ is None else environ
    timeline = source.get("HOROVOD_TIMELINE", "")  # DYNAMIC: for start_timeline, which needs none
    disabled = _number(source, "HOROVOD_STALL_CHECK_DISABLE", 0) != 0
    return Settings(
        timeline=None if timeline in ("", "DYNAMIC") else timeline,
        mark_cycles=_number(source, "HOROVOD_TIMELINE_MARK_CYCLES", 0) != 0,
        stall_warning=0 if disabled else _number(source, "HOROVOD_STALL_CHECK_TIME_SECONDS", 60),
        stall_shutdown=0 if disabled else _number(source, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0),
        fusion_threshold=int(_number(source, "HOROVOD_FUSION_THRESHOLD", 64 << 20)),
        min_ranks=int(_number(source, MIN_NP, 1)),
        reset_limit=int(_number(source, RESET_LIMIT, 0)) if source.get(RESET_LIMIT) else None,
        cycle=max(_number(source, "HOROVOD_CYCLE_TIME", 1) / 1000, 0.00002),
    )


def _number(source: Mapping[str, str], name: str, default: float) -> float:
    text = source.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value < 0:
        raise UsageError(f"{name}={text}: a number from 0 up is needed")
    return value
