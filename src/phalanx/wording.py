"""How names, flags and sizes are written for people. Without torch."""

import difflib
from collections.abc import Callable, Iterable
from typing import TypeAlias

from phalanx.errors import UsageError

_LONGEST = 100
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

#: How a message spells what a user chose: as a `flag`, or as an `argument`.
Spelling: TypeAlias = Callable[[str], str]


def unknown(kind: str, name: str, *, known: Iterable[str], note: str = "") -> UsageError:
    """The error for a name that is none of those known: with the nearest one, and all of them."""
    names = list(known)
    hint = f"did you mean '{near}'? " if (near := nearest(name, names)) else ""
    return UsageError(
        f"unknown {kind} '{shortened(name)}': {hint}There are: {', '.join(names)}{note}"
    )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """What was perhaps meant by a name that is none of those known."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    return near[0] if near else None


def flag(name: str) -> str:
    """A setting as it is spelt on the command line."""
    return f"--{key(name)}"


def negative_flag(name: str) -> str:
    """A setting that is true or false as it is spelt on the command line, for false."""
    return f"--no-{key(name)}"


def key(name: str) -> str:
    """A setting as it is spelt in a config file."""
    return name.replace("_", "-")


def argument(name: str) -> str:
    """A setting as it is spelt in Python."""
    return name


def shortened(text: str) -> str:
    """A text from somebody's file, for a message: its beginning, if it is long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def byte_size(count: float) -> str:
    """Bytes as a person reads them, such as 1.50 MiB."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    if unit == 0:
        return f"{count:.0f} B"
    return f"{count:.{max(0, 3 - len(str(int(count))))}f} {_UNITS[unit]}"


def counted(count: int, thing: str) -> str:
    """So many of a thing, such as 1 rank and 2 ranks."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def a(thing: object) -> str:
    """What kind of thing it is, with its article."""
    name = type(thing).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
