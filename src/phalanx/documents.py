"""Small files of text that a user names: settings and results, in JSON or TOML. Without torch."""

import errno
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phalanx.files import open_file

#: No configuration and no result of a training is larger, or deeper.
MOST_BYTES = 64 << 20
MOST_LEVELS = 50
#: Without the sign.
MOST_BITS = 63


def read_text(path: Path) -> str:
    """The text of a file; an OSError or a UnicodeDecodeError says why it has none."""
    with open_file(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES >> 20} MiB", str(path))
    return content.decode("utf-8-sig")


def parse_json(text: str) -> Any:
    """What a text in JSON says; a ValueError for one that is none, or says a thing twice."""
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check(value)
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """What a text in TOML says; a ValueError for one that is none."""
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check(value)
    return value


_TOO_DEEP = f"nested more than {MOST_LEVELS} levels deep"


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"'{key}' stands there twice")
        found[key] = value
    return found


def _check(value: Any) -> None:
    """Raise for what others would follow too deep, or compute with as no other program does."""
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
        if any(isinstance(one, int) and one.bit_length() > MOST_BITS for one in level):
            raise ValueError(f"a whole number of more than {MOST_BITS + 1} bits")
    raise ValueError(_TOO_DEEP)
