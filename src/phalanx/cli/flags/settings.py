"""Command-line flags made from the table of settings, so that the two cannot drift apart."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli.flags.options import annotation, parameter, with_parameters
from phalanx.cli.flags.own import declared, own_flags
from phalanx.comm.launch.job import current_job
from phalanx.compat.three_layers import read_three_layers
from phalanx.settings.files import read_settings
from phalanx.settings.own import OwnOptions
from phalanx.settings.panels import panel_of
from phalanx.settings.table import SETTINGS, Settings
from phalanx.wording import flag

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE.toml", help="Settings by name; flags win."),
]


def with_settings(command: Callable[[Settings], None]) -> Callable[..., None]:
    """A command whose flags are the settings, plus `--config FILE`.

    Under a `SettingsCommand` they are those of a user's own strategy, model and data set as well.
    """

    def run(context: typer.Context | None = None, config: Path | None = None, **flags: Any) -> None:
        command(settings_of(flags, config, context=context))

    parameters = [parameter("context", typer.Context), parameter("config", Config)]
    for name, option in SETTINGS.items():
        parameters.append(parameter(name, annotation(option, panel_of(name))))
    return with_parameters(run, parameters, like=command)


def settings_of(
    flags: Mapping[str, Any],
    config: Path | None,
    *,
    context: typer.Context | None,
    more: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings that flags and a config file give; `more` are values in place of flags."""
    given = {
        name: SETTINGS[name].convert(value, where=flag(name))
        for name, value in flags.items()
        if value is not None
    }
    return _read(given | own_flags(context) | dict(more or {}), config, own=declared(context))


def setting_parameters() -> dict[str, inspect.Parameter]:
    """The parameters of a command with all settings, by name."""
    return dict(inspect.signature(with_settings(lambda settings: None)).parameters)


def _read(flags: dict[str, Any], config: Path | None, *, own: OwnOptions | None) -> Settings:
    """Settings from flags and a file, of our own kind or of another program's."""
    translated = None
    if config is not None:
        translated = read_three_layers(config, flags, launched=current_job() is not None)
    if translated is None:
        return read_settings(flags, config, own=own)
    return read_settings(translated | flags, own=own)
