"""Settings from a TOML file, from flags, or from a run's config.json."""

import json
import tomllib
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from phalanx.errors import UsageError
from phalanx.settings.table import Settings
from phalanx.wording import unknown


def read_settings(flags: dict[str, Any], config: Path | None = None) -> Settings:
    """Settings from a file and from flags, which win; a flag that is None was not given.

    The file is TOML, or the config.json of a run.
    """
    values = {} if config is None else _read(config)
    values |= {name: value for name, value in flags.items() if value is not None}
    return Settings(**values)


def settings_from(values: dict[str, Any], *, source: str) -> Settings:
    """Settings from plain values such as TOML or JSON gives; every name and type is checked."""
    return Settings(**_checked(values, source))


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
        values = {name: value for name, value in values.items() if name != "output"}
    return _checked(values, str(path))


def _checked(values: dict[str, Any], source: str) -> dict[str, Any]:
    types = get_type_hints(Settings)
    checked = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in types:
            keys = [one.replace("_", "-") for one in types]
            raise unknown("key", key, known=keys, note=f" (in {source})")
        checked[name] = convert(value, types[name], where=f"{source}: '{key}'")
    return checked


def convert(value: Any, kind: Any, *, where: str) -> Any:
    """The value as a setting's type wants it; TOML and JSON have no paths and no tuples."""
    kinds = alternatives(kind)
    if value is None and type(None) in get_args(kind):
        return None
    for wanted in kinds:
        if get_origin(wanted) is Literal and value in get_args(wanted):
            return value
        if wanted is Path and isinstance(value, str | Path):
            return Path(value)
        if wanted is float and type(value) in (int, float):
            return float(value)
        if wanted in (int, str, bool) and type(value) is wanted:
            return value
        if get_origin(wanted) is tuple and isinstance(value, list | tuple):
            (item, _) = get_args(wanted)
            if all(type(one) is item for one in value):
                return tuple(value)
    if isinstance(value, str) and str not in kinds:
        return _parse(value, kinds, where=where)
    raise UsageError(f"{where} must be {_described(kinds)}, not {value!r}")


def alternatives(kind: Any) -> list[Any]:
    """The types that a setting may have, None aside."""
    if get_origin(kind) in (UnionType, Union):
        return [part for part in get_args(kind) if part is not type(None)]
    return [kind]


def _parse(text: str, kinds: list[Any], *, where: str) -> Any:
    """What a text stands for: `128,64` for a tuple, `64` for a number."""
    for wanted in kinds:
        if get_origin(wanted) is tuple:
            (item, _) = get_args(wanted)
            try:
                return tuple(item(part.strip()) for part in text.split(",") if text.strip())
            except ValueError as error:
                raise UsageError(
                    f"{where}: sizes are whole numbers such as 128,64, not '{text}'"
                ) from error
        if wanted is int and text.lstrip("-").isdigit():
            return int(text)
    raise UsageError(f"{where} must be {_described(kinds)}, not {text!r}")


def _described(kinds: list[Any]) -> str:
    names = []
    for wanted in kinds:
        if get_origin(wanted) is Literal:
            names += [f"'{value}'" for value in get_args(wanted)]
        elif get_origin(wanted) is tuple:
            of = "whole numbers" if get_args(wanted)[0] is int else "names"
            names.append(f"a list of {of}")
        else:
            names.append(f"a {wanted.__name__}")
    return " or ".join(names)
