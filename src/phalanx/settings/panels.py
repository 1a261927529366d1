"""The settings by the panels that they are shown in: data, model, training, parallelism, output."""

import dataclasses
from typing import Any

from phalanx.settings.table import SETTINGS, Settings

_FIELDS = {field.name: field for field in dataclasses.fields(Settings)}


def panel_of(name: str) -> str:
    """Where a setting is shown."""
    panel: str = _FIELDS[name].metadata["group"]
    return panel


def names_in(*panels: str) -> tuple[str, ...]:
    """The settings that are shown in these panels, one panel after the other."""
    return tuple(name for panel in panels for name in SETTINGS if panel_of(name) == panel)


def default_of(name: str) -> Any:
    """What a setting is when a user says nothing."""
    return _FIELDS[name].default


def defaults(*panels: str) -> dict[str, Any]:
    """The settings in these panels by name, as they are when a user says nothing."""
    return {name: default_of(name) for name in names_in(*panels)}
