"""Flags that a user's own strategy, model and data set declare: known once the line is seen.

What is declared is read from the text of the code, which only the ranks run.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from phalanx.cli.flags.options import annotation, parameter, with_parameters
from phalanx.observe.sweep.axes import split_axis
from phalanx.settings.files import keys_in
from phalanx.settings.own import Own, OwnOptions, read_own
from phalanx.settings.table import SETTINGS
from phalanx.wording import flag

#: Of a wrong command line, of whatever kind; typer exports only its descendants.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[1]
#: Where a context keeps what was declared, the flags for that, their values; which help to show.
_DECLARED, _FLAGS, _VALUES = "phalanx.declared", "phalanx.flags", "phalanx.values"
_SHORT = "phalanx.short"
_HELP_ALL = "--help-all"
#: What people type who come from other programs, and what it is here.
_TYPED = {"--lr": "--learning-rate", "-n": "--ranks", "-np": "--ranks", "--np": "--ranks"}
#: The settings that a short help has: what most trainings are told.
_COMMON = (
    *("dataset", "data_dir", "task", "target", "validation_split", "model", "hidden"),
    *("epochs", "batch_size", "optimizer", "learning_rate", "metrics", "seed"),
    *("ranks", "strategy", "threads", "output", "checkpoint_every", "on_failure"),
)
#: What it leaves out besides, which is no setting.
_RARE = ("entry",)


def own_flags(context: typer.Context | None) -> dict[str, Any]:
    """The values that flags of a user's own code were given, by name."""
    return {} if context is None else dict(context.meta.get(_VALUES, {}))


def declared(context: typer.Context | None) -> OwnOptions | None:
    """What the code that a line names declares; None if that was not looked for."""
    return None if context is None else context.meta.get(_DECLARED)


class SettingsCommand(TyperCommand):
    """A command with settings, whose flags depend on the strategy, model and data set it names."""

    def get_params(self, ctx: Any) -> list[Any]:
        ours = super().get_params(ctx)
        if ctx.meta.get(_SHORT):
            rare = {*SETTINGS, *_RARE} - {*_COMMON}
            ours = [one for one in ours if one.name not in rare]
        return [*ours, *ctx.meta.get(_FLAGS, ())]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help of what is used most, or of everything if that was asked for."""
        ctx.meta[_SHORT] = ctx.meta.get(_SHORT, True)
        if ctx.meta[_SHORT]:
            self.epilog = f"`{ctx.command_path} {_HELP_ALL}` explains all flags."
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if _HELP_ALL in args:
            ctx.meta[_SHORT] = False
            args = ["--help" if one == _HELP_ALL else one for one in args]
        args = self._as_ours(ctx, args)
        own = read_own(self._names(ctx, args))
        ctx.meta[_DECLARED], ctx.meta[_FLAGS] = own, _flags(own)
        try:
            rest = super().parse_args(ctx, args)
        except _CommandLineError as error:
            _explain(error, own)
            raise
        given = {name: ctx.params.pop(name) for name in own.options if name in ctx.params}
        ctx.meta[_VALUES] = {
            name: own.options[name].option.convert(value, where=flag(name))
            for name, value in given.items()
            if value is not None
        }
        return rest

    def _as_ours(self, ctx: Any, args: list[str]) -> list[str]:
        """The words with our spelling of flags: hyphens for underscores, and our own names."""
        flags = {one for parameter in self.get_params(ctx) for one in parameter.opts}
        found = []
        for word in args:
            name, equals, value = word.partition("=")
            ours = _TYPED.get(name, name)
            if name.startswith("--") and name.replace("_", "-") in flags:
                ours = name.replace("_", "-")
            found.append(f"{ours}{equals}{value}" if name not in flags and ours in flags else word)
        return found

    def _names(self, ctx: Any, args: list[str]) -> Mapping[str, Any]:
        """What the line, or else its config file, names as strategy, model and data set."""
        parser = self.make_parser(ctx)
        parser.ignore_unknown_options = True
        given, _, _ = parser.parse_args(args=list(args))
        config = given.get("config")
        names = {} if config is None else keys_in(Path(config))
        names |= {name: value for name, value in given.items() if isinstance(value, str)}
        for text in given.get("vary") or ():
            name, values = split_axis(text)
            names[name] = ",".join(values)
        return names | {"strategy": given["strategies"]} if "strategies" in given else names


def _flags(own: OwnOptions) -> list[Any]:
    """Flags as typer makes them of a command's parameters, in a panel for each code."""

    def command(**_: Any) -> None:
        """Nothing: it lends its parameters."""

    app = typer.Typer(add_completion=False)
    shown = [parameter(name, _annotation(one)) for name, one in own.options.items()]
    app.command()(with_parameters(command, shown, like=command))
    return list(typer.main.get_command(app).params)


def _annotation(own: Own) -> Any:
    return annotation(own.option, f"Options of {own.owner}")


def _explain(error: Any, own: OwnOptions) -> None:
    """Say about an unknown flag why those of some code are not known."""
    if hasattr(error, "option_name") and hasattr(error, "possibilities") and own.obstacles:
        error.message += f" ({'; '.join(own.obstacles)})"
