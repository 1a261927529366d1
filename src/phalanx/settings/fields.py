"""How a table of settings is made: fields of a dataclass, each with the option that it is for."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from phalanx import data, models
from phalanx.options import Option, is_switch
from phalanx.strategies import registry as strategies

_Table = TypeVar("_Table")


def setting(default: Any, group: str, text: str, **more: Any) -> Any:
    """A field with a help text, which may end in words for the default: [default: all of them].

    What else an `Option` has may be given, too; its name and kind are the field's.
    """
    text, _, words = text.partition(" [default: ")
    words = words.removesuffix("]")
    option = Option("", None, text, default=default, default_words=words, **more)
    return dataclasses.field(default=default, metadata={"group": group, "option": option})


def of(option: Option, group: str, *, owners: tuple[str, ...] = (), always: bool = False) -> Any:
    """A field for an option that is declared elsewhere; without a value it was not given.

    `owners` are those that take it, if not everybody does. One that `always` has a value is at the
    option's default instead.
    """
    default: Any = option.default if always else False if is_switch(option) else None
    if owners:
        option = dataclasses.replace(option, help=f"{', '.join(owners)}: {option.help}")
    return dataclasses.field(default=default, metadata={"group": group, "option": option})


def with_options(table: type[_Table]) -> type[_Table]:
    """Add a field for each option that some data set, model or strategy declares."""
    for group, option, owners in _declared():
        kind = option.kind if is_switch(option) else option.kind | None
        table.__annotations__[option.name] = kind
        setattr(table, option.name, of(option, group, owners=owners))
    return table


def options_of(table: type[Any]) -> dict[str, Option]:
    """The option of every field that has one, by name."""
    hints = get_type_hints(table)
    return {
        field.name: dataclasses.replace(
            field.metadata["option"], name=field.name, kind=hints[field.name]
        )
        for field in dataclasses.fields(table)
        if "option" in field.metadata
    }


def with_texts(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values with texts in place of paths, which JSON does not have."""
    return {name: str(one) if isinstance(one, Path) else one for name, one in values.items()}


def _declared() -> Iterator[tuple[str, Option, tuple[str, ...]]]:
    """Every option with the panel that it is shown in, and who takes it."""
    for option in data.OPTIONS:
        sets = [entry.name for entry in data.describe() if option in entry.options]
        yield "Data", option, () if option in data.STEPS else tuple(sets)
    for option in models.OPTIONS:
        having = [entry.name for entry in models.describe() if option in entry.options]
        yield "Model", option, tuple(having)
    for option in strategies.OPTIONS:
        ways = [one.name for one in strategies.STRATEGIES.values() if one.takes(option.name)]
        yield "Parallelism", option, tuple(ways)
