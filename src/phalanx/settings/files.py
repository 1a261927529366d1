"""Settings from a TOML file, from flags, or from a run's config.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phalanx.documents import parse_json, parse_toml, read_text
from phalanx.errors import UsageError
from phalanx.settings.defaults import completed
from phalanx.settings.own import Own, OwnOptions, read_own
from phalanx.settings.table import SETTINGS, Settings
from phalanx.settings.tokens import with_model
from phalanx.strategies.registry import resolve
from phalanx.wording import key as key_of
from phalanx.wording import unknown


def read_settings(
    flags: Mapping[str, Any], config: Path | None = None, *, own: OwnOptions | None = None
) -> Settings:
    """Settings from a file and from flags, which win; a flag that is None was not given.

    The file is TOML, or the config.json of a run. What a user's own strategy, model or data set
    declares is a flag and a key, too: `own`, or what those that are named declare. What neither
    says is by model and data: see `phalanx.settings.defaults`.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    in_file = {} if config is None else _read(config)
    known = read_own(in_file | given) if own is None else own
    values = with_model(_checked(in_file, str(config), own=known) | given)
    return completed(_made(values, own=known), values)


def _made(values: Mapping[str, Any], *, own: OwnOptions) -> Settings:
    """Settings of values that are checked already, those of a user's `own` code among them."""
    ours = {name: value for name, value in values.items() if name not in own.options}
    theirs = {name: value for name, value in values.items() if name in own.options}
    if ours.get("strategy") is not None:
        ours["strategy"] = resolve(ours["strategy"])
    return Settings(**ours, own=own.by_part(theirs))


def settings_from(values: Mapping[str, Any], *, source: str) -> Settings:
    """Settings as a run's config.json has them; every name and type of ours is checked.

    What belongs to a user's own code is taken as it is, if that is elsewhere by now.
    """
    ours = {name: value for name, value in values.items() if name != "own"}
    known = _known(ours)
    own = {
        part: {
            name: known[name].option.convert(value, where=f"{source}: '{name}'")
            if name in known
            else _without_lists(value)
            for name, value in given.items()
        }
        for part, given in _own(values, where=source).items()
    }
    return Settings(**_checked(ours, source, own=OwnOptions({}, ())), own=own)


def _known(values: Mapping[str, Any]) -> Mapping[str, Own]:
    """What the code that a run names declares, if all of it is still there."""
    try:
        return read_own(values).options
    except UsageError:
        return {}


def keys_in(config: Path) -> dict[str, Any]:
    """What stands in a file by name, unchecked; nothing if it is none of ours."""
    try:
        return {key.replace("-", "_"): value for key, value in _read(config).items()}
    except UsageError:  # another program's file, or a wrong one: whoever reads it says so
        return {}


def _read(path: Path) -> dict[str, Any]:
    kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
    try:
        text = read_text(path)
        values = parse_json(text) if kind == "JSON" else parse_toml(text)
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}") from error
    except ValueError as error:  # of either kind, or of bytes that are no text
        raise UsageError(f"--config {path}: not valid {kind}: {error}") from error
    if kind == "JSON":
        values = values.get("settings") if isinstance(values, dict) else None
        if not isinstance(values, dict):
            raise UsageError(f"--config {path}: has no settings, as the config.json of a run has")
        own = _own(values, where=f"--config {path}")
        values = {name: value for name, value in values.items() if name not in ("output", "own")}
        values |= {name: value for given in own.values() for name, value in given.items()}
    return dict(values)


def _checked(values: Mapping[str, Any], source: str, *, own: OwnOptions) -> dict[str, Any]:
    known = SETTINGS | {name: one.option for name, one in own.options.items()}
    checked = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known:
            note = "".join(f"; {obstacle}" for obstacle in own.obstacles)
            keys = map(key_of, known)
            raise unknown("key", key, known=keys, note=f" (in {source}){note}")
        if name in checked:
            raise UsageError(f"{source}: has both '{key_of(name)}' and '{name}': leave one out")
        checked[name] = known[name].convert(value, where=f"{source}: '{key}'")
    return checked


def _own(values: Mapping[str, Any], *, where: str) -> dict[str, dict[str, Any]]:
    """What belongs to a user's own code, by the part that it is of."""
    own = values.get("own") or {}
    if not isinstance(own, dict) or not all(isinstance(one, dict) for one in own.values()):
        raise UsageError(f"{where}: 'own' is not what a run writes there")
    return own


def _without_lists(value: Any) -> Any:
    """JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value
