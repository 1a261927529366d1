"""Command-line flags made from the table of settings, so that the two cannot drift apart."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli.flags.options import annotation, parameter, with_parameters
from phalanx.cli.flags.own import declared, own_flags
from phalanx.comm.launch.job import current_job
from phalanx.compat.entry_points import NAMES
from phalanx.compat.three_layers import read_three_layers
from phalanx.errors import UsageError
from phalanx.settings.files import read_settings
from phalanx.settings.panels import panel_of
from phalanx.settings.table import SETTINGS, Settings
from phalanx.wording import flag

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE.toml", help="Settings by name; flags win."),
]


#: For commands that train what one line says: see `entry_point_parameter`.
_Entry = Annotated[
    str | None,
    typer.Option(
        "--entry",
        metavar="NAME",
        help="With an .irisenv or .imgenv as --config: what its program calls the way to train, "
        f"one of {', '.join(NAMES)}.",
        rich_help_panel="Parallelism",
        show_default=False,
    ),
]


def with_settings(
    command: Callable[[Settings], None], *, chooses_strategy: bool = True
) -> Callable[..., None]:
    """A command whose flags are the settings, plus `--config FILE`.

    Under a `SettingsCommand` they are those of a user's own strategy, model and data set as well.
    One that trains by strategies of its own leaves out those that another program's file is for.
    """

    def run(context: typer.Context | None = None, config: Path | None = None, **flags: Any) -> None:
        given = {name: value for name, value in flags.items() if name != "entry"}
        settings = settings_of(
            given,
            config,
            context=context,
            entry=flags.get("entry"),
            chooses_strategy=chooses_strategy,
        )
        command(settings)

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
    entry: str | None = None,
    chooses_strategy: bool = True,
) -> Settings:
    """The settings that flags and a config file give; `more` are values in place of flags.

    An `entry` is the name that another program's file has for a strategy and a data set.
    """
    given = {
        name: SETTINGS[name].convert(value, where=flag(name))
        for name, value in flags.items()
        if value is not None
    }
    given |= own_flags(context) | dict(more or {})
    translated = _of_another_program(given, config, entry, chooses_strategy=chooses_strategy)
    if translated is None:
        return read_settings(given, config, own=declared(context))
    return read_settings(translated | given, own=declared(context))


def setting_parameters() -> dict[str, inspect.Parameter]:
    """The parameters of a command with all settings, by name."""
    return dict(inspect.signature(with_settings(lambda settings: None)).parameters)


def entry_point_parameter() -> inspect.Parameter:
    """The flag that names one of the ways to train which another program's file is for.

    It is no setting: what it stands for is settings, and these are what a run records.
    """
    return parameter("entry", _Entry)


def _of_another_program(
    flags: Mapping[str, Any], config: Path | None, entry: str | None, *, chooses_strategy: bool
) -> dict[str, Any] | None:
    """The settings that another program's file stands for; None if it is of our own kind."""
    job = current_job()
    translated = None
    if config is not None:
        translated = read_three_layers(
            config,
            flags,
            launched=None if job is None else job.size,
            entry=entry,
            chooses_strategy=chooses_strategy,
        )
    if entry is not None and translated is None:
        raise UsageError(
            "--entry names a way to train of the program that .irisenv and .imgenv are from: give "
            "such a file as --config, or leave it out"
        )
    return translated
