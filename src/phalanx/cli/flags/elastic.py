"""Horovod's elastic training on the command line: how few ranks go on when others are lost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.errors import UsageError


@dataclass(frozen=True)
class Elastic:
    """What `phalanx run` was told of it."""

    #: None for a job that ends with the first rank that fails.
    min_np: int | None = None
    max_np: int | None = None
    reset_limit: int | None = None

    @property
    def survives(self) -> bool:
        """Whether ranks go on without lost ones."""
        return self.min_np is not None

    def ranks(self, asked: int | None, *, most: int) -> int:
        """How many to start: as many as were asked for, or else as there is room for."""
        if asked is None:
            asked = most if self.max_np is None else min(most, self.max_np)
        if self.min_np is not None and asked < self.min_np:
            raise UsageError(f"--min-np {self.min_np} is above the {asked} ranks to start")
        if self.max_np is not None and asked > self.max_np:
            raise UsageError(f"--max-np {self.max_np} is below the {asked} ranks to start")
        return asked


def elastic(given: Mapping[str, Any]) -> Elastic:
    """What flags ask for, by their names in Python."""
    found = Elastic(given.get("min_np"), given.get("max_np"), given.get("reset_limit"))
    flags = {"--min-np": found.min_np, "--max-np": found.max_np}
    for flag, value in flags.items():
        if value is not None and value < 1:
            raise UsageError(f"{flag} must be at least 1, not {value}")
    if found.reset_limit is not None and found.reset_limit < 0:
        raise UsageError(f"--reset-limit must not be negative, as {found.reset_limit} is")
    others = {**flags, "--reset-limit": found.reset_limit}
    others["--elastic-timeout"] = given.get("elastic_timeout")
    alone = [flag for flag, value in others.items() if value is not None]
    if not found.survives and alone:
        raise UsageError(
            f"{alone[0]} goes with --min-np: without it the first rank that fails ends the job"
        )
    return found
