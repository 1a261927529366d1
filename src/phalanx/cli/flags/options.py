"""How options become the flags of a command."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.kinds import alternatives
from phalanx.options import Option
from phalanx.wording import flag, negative_flag

_METAVARS = {int: "N", float: "X", str: "TEXT", Path: "PATH", bool: ""}


def parameter(name: str, kind: Any, *, default: Any = None) -> inspect.Parameter:
    """A parameter of a command, given by its name."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def annotation(option: Option, panel: str) -> Any:
    """A typer option; absent means not given, so that a config file can speak."""
    kinds = alternatives(option.kind)
    kind = kinds[0] if len(kinds) == 1 and kinds[0] in _METAVARS else str
    # Numbers are texts here: what is none is refused in the words of the option's own kind.
    wanted = kind if kind in (bool, Path) else str
    spelled = flag(option.name)
    if wanted is bool:
        spelled += f"/{negative_flag(option.name)}"
    shown = typer.Option(
        spelled,
        help=option.text,
        metavar=None if kind is bool else _METAVARS[kind],
        rich_help_panel=panel,
        show_default=False,
    )
    return Annotated[wanted | None, shown]


def with_parameters(
    run: Callable[..., None], parameters: Iterable[inspect.Parameter], *, like: Callable[..., None]
) -> Callable[..., None]:
    """A command that has these parameters, and the name and the help of another."""
    shown = [*parameters]
    run.__name__ = like.__name__
    run.__doc__ = like.__doc__
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run
