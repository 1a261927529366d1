"""Settings from a TOML file, from flags, or from a run's config.json."""

import tomllib
from pathlib import Path
from typing import Any, get_args, get_type_hints

from phalanx.errors import UsageError
from phalanx.spelling import unknown
from phalanx.train.settings import Settings


def read_settings(flags: dict[str, Any], config: Path | None = None) -> Settings:
    """Settings from a TOML file and from flags, which win; a flag that is None was not given."""
    values = {} if config is None else _read_toml(config)
    values |= {name: value for name, value in flags.items() if value is not None}
    return Settings(**values)


def settings_from(values: dict[str, Any], *, source: str) -> Settings:
    """Settings from plain values such as TOML or JSON gives; every name and type is checked."""
    return Settings(**_checked(values, source))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: not valid TOML: {error}") from error
    return _checked(values, str(path))


def _checked(values: dict[str, Any], source: str) -> dict[str, Any]:
    types = get_type_hints(Settings)
    checked = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in types:
            keys = [one.replace("_", "-") for one in types]
            raise unknown("key", key, known=keys, note=f" (in {source})")
        checked[name] = _convert(value, types[name], where=f"{source}: '{key}'")
    return checked


def _convert(value: Any, kind: Any, *, where: str) -> Any:
    """The value as the setting's type wants it; TOML and JSON have no paths and no tuples."""
    kinds = [part for part in get_args(kind) if part is not type(None)] or [kind]
    if value is None and type(None) in get_args(kind):
        return None
    wanted = kind if get_args(kind) and kinds == list(get_args(kind)) else kinds[0]
    if wanted is Path and isinstance(value, str):
        return Path(value)
    if wanted is float and type(value) in (int, float):
        return float(value)
    if wanted in (int, str, bool) and type(value) is wanted:
        return value
    if wanted == tuple[int, ...] and isinstance(value, list | tuple):
        if all(type(item) is int for item in value):
            return tuple(value)
    elif wanted == tuple[int, ...] and isinstance(value, str):
        return parse_sizes(value)
    name = "list of whole numbers" if wanted == tuple[int, ...] else wanted.__name__
    raise UsageError(f"{where} must be a {name}, not {value!r}")


def parse_sizes(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas, such as 128,64."""
    try:
        return tuple(int(item) for item in text.split(",")) if text.strip() else ()
    except ValueError as error:
        raise UsageError(f"sizes are whole numbers such as 128,64, not '{text}'") from error
