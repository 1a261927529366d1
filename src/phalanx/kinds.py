"""The kinds of values that options have, as annotations say them, and how a text becomes one.

A kind is int, float, bool, str, Path, a Literal of texts, a tuple of whole numbers or of names, or
some of these and None with `|` between them.
"""

from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from phalanx.errors import UsageError

_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    Path: "a path",
    tuple[int, ...]: "whole numbers such as 128,64",
    tuple[str, ...]: "names with commas between them",
}


def alternatives(kind: Any) -> list[Any]:
    """The kinds that a value may have, None aside."""
    if get_origin(kind) in (UnionType, Union):
        return [part for part in get_args(kind) if part is not type(None)]
    return [kind]


def in_words(kind: Any) -> str:
    """A kind for people, such as: a whole number or 'full'."""
    words = []
    for wanted in alternatives(kind):
        if get_origin(wanted) is Literal:
            words += [f"'{value}'" for value in get_args(wanted)]
        else:
            words.append(_WORDS[wanted])
    return " or ".join(words)


def is_of(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind already; a list will do for a tuple."""
    return any(_is_one(value, wanted) for wanted in alternatives(kind))


def _is_one(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is tuple:
        (item, _) = get_args(kind)
        return isinstance(value, list | tuple) and all(type(one) is item for one in value)
    if kind is float:
        return type(value) in (int, float)
    return isinstance(value, Path) if kind is Path else type(value) is kind


def convert(value: Any, kind: Any, *, where: str) -> Any:
    """The value as its kind wants it; TOML and JSON have no paths and no tuples, flags have texts.

    A UsageError says `where` a value stands that is of another kind.
    """
    kinds = alternatives(kind)
    if value is None and type(None) in get_args(kind):
        return None
    for wanted in kinds:
        if wanted is Path and isinstance(value, str | Path):
            return Path(value)
        if _is_one(value, wanted):
            return _as(value, wanted)
    if isinstance(value, str) and str not in kinds:
        for wanted in kinds:
            try:
                return _parse(value, wanted)
            except ValueError:
                continue
    raise UsageError(f"{where} must be {in_words(kind)}, not {value!r}")


def _as(value: Any, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        return tuple(value)
    return float(value) if kind is float else value


def _parse(text: str, kind: Any) -> Any:
    """What a text stands for: `128,64` for a tuple, `64` for a number."""
    if get_origin(kind) is tuple:
        (item, _) = get_args(kind)
        return tuple(item(part.strip()) for part in text.split(",") if text.strip())
    if kind in (int, float):
        return kind(text)
    raise ValueError(text)
