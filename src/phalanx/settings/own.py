"""The options that a user's own strategy, model, data set, objective and callbacks declare, as
settings like ours.

They are read from the text of the code, which is not run: see `phalanx.declared`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.data import user as user_data
from phalanx.declared import Declared
from phalanx.errors import UsageError
from phalanx.models import user as user_models
from phalanx.options import Option
from phalanx.settings.own_training import callback_declared, objective_declared
from phalanx.settings.table import SETTINGS
from phalanx.strategies import user as user_strategies
from phalanx.wording import flag

_READERS = {
    "strategy": user_strategies.declared,
    "model": user_models.declared,
    "dataset": user_data.declared,
    "objective": objective_declared,
    "callback": callback_declared,
}
#: The flags of commands that are no settings.
_OF_COMMANDS = (
    *(
        "config",
        "help",
        "help_all",
        "own",
        "run",
        "runs",
        "input",
        "resume",
        "requeue",
        "trust_code",
    ),
    *("strategies", "repeats", "devices", "json", "csv"),
    *("vary", "time_limit", "skip_refused", "report"),
)


@dataclass(frozen=True)
class Own:
    """An option of a user's own code: of which part of a training, and of which code."""

    part: str
    declared: Declared
    option: Option

    @property
    def owner(self) -> str:
        """Whose it is, for people."""
        return f"{self.declared.source.kind.name} {self.declared.source.name}"


@dataclass(frozen=True)
class OwnOptions:
    """All options of a user's own code by name, and why those of some code are not known."""

    options: Mapping[str, Own]
    obstacles: tuple[str, ...]

    def by_part(self, values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Values of options, each with the part of a training that it is for."""
        found: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            found.setdefault(self.options[name].part, {})[name] = value
        return found


def read_own(names: Mapping[str, Any]) -> OwnOptions:
    """What the code of these names declares, of those parts that are a user's own.

    Several strategies, as `phalanx compare` trains with, and several callbacks have commas between
    them.
    """
    read = [*_read(names)]
    options: dict[str, Own] = {}
    for part, declared in read:
        for option in declared.options:
            own = Own(part, declared, option)
            _check_name(own, options.get(option.name))
            options[option.name] = own
    obstacles = [
        f"{one.source.kind.name} {one.source.name}: {one.obstacle}"
        for _, one in read
        if one.obstacle
    ]
    return OwnOptions(options, tuple(obstacles))


def _read(names: Mapping[str, Any]) -> Iterator[tuple[str, Declared]]:
    for part, declared in _READERS.items():
        for name in str(names.get(part) or "").split(","):
            if ":" in name:
                yield part, declared(name.strip())


def _check_name(own: Own, other: Own | None) -> None:
    """Refuse an option that would be the flag of something else, too."""
    name = own.option.name
    if name in (*SETTINGS, *_OF_COMMANDS):
        raise UsageError(
            f"{own.owner} declares {name}, and {flag(name)} is a flag of Phalanx's own: rename it"
        )
    if other is None:
        return
    if other.part != own.part or other.option.kind != own.option.kind:
        raise UsageError(
            f"{flag(name)} would be an option of {other.owner} and of {own.owner}: rename one"
        )
