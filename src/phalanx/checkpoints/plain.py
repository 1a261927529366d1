"""Plain values in JSON, and back as they were.

What JSON lacks is an object with one key that begins with `$`:

    {"$float": "inf"}       inf, -inf and nan
    {"$int": "0x…"}         whole numbers of more than 63 bits
    {"$tuple": […]}
    {"$items": [[key, value], …]}   dictionaries whose keys are not all texts, or begin with $
"""

import math
from typing import Any

from phalanx.documents import MOST_BITS
from phalanx.errors import UsageError
from phalanx.wording import a

#: Each may take three levels of JSON, of which `phalanx.documents` reads fifty.
_MOST_LEVELS = 12


def encode(value: Any, *, where: str = "values", level: int = 0) -> Any:
    """A value as JSON has it; a UsageError for one that would not come back as it was."""
    if level > _MOST_LEVELS:
        raise UsageError(f"{where}: nested too deep for a checkpoint")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= MOST_BITS else {"$int": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, dict):
        return _encoded(value, where=where, level=level)
    if type(value) in (list, tuple):
        inner = [encode(one, where=where, level=level + 1) for one in value]
        return inner if isinstance(value, list) else {"$tuple": inner}
    raise UsageError(
        f"{where}: is {a(value)}, and a checkpoint holds tensors, numbers, texts, "
        "lists, tuples and dictionaries"
    )


def _encoded(value: dict[Any, Any], *, where: str, level: int) -> Any:
    if type(value) is not dict:
        raise UsageError(f"{where}: is {a(value)}: make it a dict")
    inner = [
        (key, encode(one, where=f"{where}/{key}", level=level + 1)) for key, one in value.items()
    ]
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return dict(inner)
    keys = [encode(key, where=f"a key in {where}", level=level + 1) for key in value]
    return {"$items": [[key, one] for key, (_, one) in zip(keys, inner, strict=True)]}


def decode(value: Any) -> Any:
    """What `encode` was given; a ValueError for what it does not write."""
    if isinstance(value, list):
        return [decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    mark = next((key for key in value if key.startswith("$")), None)
    if mark is None:
        return {key: decode(one) for key, one in value.items()}
    if len(value) == 1:
        match mark, value[mark]:
            case "$float", ("inf" | "-inf" | "nan") as text:
                return float(text)
            case "$int", str(text) if text.lstrip("-").startswith("0x"):
                return int(text, 16)
            case "$tuple", list(inner):
                return tuple(decode(one) for one in inner)
            case "$items", list(pairs):
                return _items(pairs)
    raise ValueError(f"an object with {mark!r} is none that a checkpoint has")


def _items(pairs: list[Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for pair in pairs:
        match pair:
            case [key, one] if not isinstance(key, list):
                try:
                    found[decode(key)] = decode(one)
                except TypeError as error:
                    raise ValueError(f"{key!r} cannot be a key") from error
            case _:
                raise ValueError("$items are pairs of a key and a value")
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found
