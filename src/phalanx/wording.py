"""How names, flags and sizes are written for people. Without torch."""

import difflib
from collections.abc import Iterable

from phalanx.errors import UsageError

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def unknown(kind: str, name: str, *, known: Iterable[str], note: str = "") -> UsageError:
    """The error for a name that is none of those known: with the nearest one, and all of them."""
    names = list(known)
    near = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return UsageError(f"unknown {kind} '{name}': {hint}There are: {', '.join(names)}{note}")


def flag(name: str) -> str:
    """A setting as it is spelt on the command line."""
    return "--" + name.replace("_", "-")


def byte_size(count: float) -> str:
    """Bytes as a person reads them, such as 1.50 MiB."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    if unit == 0:
        return f"{count:.0f} B"
    return f"{count:.{max(0, 3 - len(str(int(count))))}f} {_UNITS[unit]}"
