"""Command-line flags made from the table of settings, so that the two cannot drift apart."""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from phalanx.comm.launch.job import current_job
from phalanx.compat.three_layers import read_three_layers
from phalanx.settings.files import alternatives, convert, read_settings
from phalanx.settings.table import Settings

_METAVARS = {int: "N", float: "X", str: "TEXT", Path: "PATH", bool: ""}

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE.toml", help="Settings by name; flags win."),
]


def with_settings(command: Callable[[Settings], None]) -> Callable[..., None]:
    """A command whose flags are the settings, plus `--config FILE`."""

    def run(config: Path | None = None, **flags: Any) -> None:
        for name, value in flags.items():
            if value is not None:
                flag = f"--{name.replace('_', '-')}"
                flags[name] = convert(value, hints[name], where=flag)
        command(_read(flags, config))

    parameters = [_parameter("config", Config)]
    hints = get_type_hints(Settings)
    for field in dataclasses.fields(Settings):
        parameters.append(_parameter(field.name, _annotation(field, hints[field.name])))
    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _read(flags: dict[str, Any], config: Path | None) -> Settings:
    """Settings from flags and a file, of our own kind or of another program's."""
    if config is None:
        return read_settings(flags)
    given = {name: value for name, value in flags.items() if value is not None}
    translated = read_three_layers(config, given, launched=current_job() is not None)
    return read_settings(flags, config) if translated is None else Settings(**translated | given)


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _help(field: dataclasses.Field[Any]) -> str:
    text, bracket, default = field.metadata["help"].partition(" [default")
    if field.metadata["choices"]:
        text += f" One of: {', '.join(field.metadata['choices'])}."
    if field.default not in (None, False, True, (), ""):
        return f"{text} [default: {field.default}]"
    return f"{text}{bracket}{default}"


def _annotation(field: dataclasses.Field[Any], kind: Any) -> Any:
    """A typer option for one setting; absent means not given, so that a config file can speak."""
    kinds = alternatives(kind)
    wanted = kinds[0] if len(kinds) == 1 and kinds[0] in _METAVARS else str
    names = [f"--{field.name.replace('_', '-')}"]
    if wanted is bool:
        names[0] += f"/--no-{field.name.replace('_', '-')}"
    option = typer.Option(
        *names,
        help=_help(field),
        metavar=None if wanted is bool else _METAVARS[wanted],
        rich_help_panel=field.metadata["group"],
        show_default=False,
    )
    return Annotated[wanted | None, option]
