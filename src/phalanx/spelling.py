"""Help for a name that nobody knows."""

import difflib
from collections.abc import Iterable

from phalanx.errors import UsageError


def unknown(kind: str, name: str, *, known: Iterable[str], note: str = "") -> UsageError:
    """The error for a name that is none of those known: with the nearest one, and all of them."""
    names = list(known)
    near = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return UsageError(f"unknown {kind} '{name}': {hint}There are: {', '.join(names)}{note}")
