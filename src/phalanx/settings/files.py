"""Settings from a TOML file, from flags, or from a run's config.json."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phalanx.errors import UsageError
from phalanx.settings.own import OwnOptions, read_own
from phalanx.settings.table import SETTINGS, Settings
from phalanx.wording import key as key_of
from phalanx.wording import unknown


def read_settings(
    flags: Mapping[str, Any], config: Path | None = None, *, own: OwnOptions | None = None
) -> Settings:
    """Settings from a file and from flags, which win; a flag that is None was not given.

    The file is TOML, or the config.json of a run. What a user's own strategy, model or data set
    declares is a flag and a key, too: `own`, or what those that are named declare.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    in_file = {} if config is None else _read(config)
    known = read_own(in_file | given) if own is None else own
    values = _checked(in_file, str(config), own=known) | given
    return _made(values, own=known)


def _made(values: Mapping[str, Any], *, own: OwnOptions) -> Settings:
    """Settings of values that are checked already, those of a user's `own` code among them."""
    ours = {name: value for name, value in values.items() if name not in own.options}
    theirs = {name: value for name, value in values.items() if name in own.options}
    return Settings(**ours, own=own.by_part(theirs))


def settings_from(values: Mapping[str, Any], *, source: str) -> Settings:
    """Settings as a run's config.json has them; every name and type of ours is checked.

    What belongs to a user's own code is taken as it is: the code may be elsewhere by now.
    """
    ours = {name: value for name, value in values.items() if name != "own"}
    own = {
        part: {name: _without_lists(value) for name, value in given.items()}
        for part, given in (values.get("own") or {}).items()
    }
    return Settings(**_checked(ours, source, own=OwnOptions({}, ())), own=own)


def keys_in(config: Path) -> dict[str, Any]:
    """What stands in a file by name, unchecked; nothing if it is none of ours."""
    try:
        return {key.replace("-", "_"): value for key, value in _read(config).items()}
    except UsageError:  # another program's file, or a wrong one: whoever reads it says so
        return {}


def _read(path: Path) -> dict[str, Any]:
    kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = json.loads(text) if kind == "JSON" else tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}") from error
    except ValueError as error:  # of either kind, or of bytes that are no text
        raise UsageError(f"--config {path}: not valid {kind}: {error}") from error
    if kind == "JSON":
        values = values.get("settings") if isinstance(values, dict) else None
        if not isinstance(values, dict):
            raise UsageError(f"--config {path}: has no settings, as the config.json of a run has")
        own = values.get("own") or {}
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
        checked[name] = known[name].convert(value, where=f"{source}: '{key}'")
    return checked


def _without_lists(value: Any) -> Any:
    """JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value
