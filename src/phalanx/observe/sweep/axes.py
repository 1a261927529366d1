"""What a sweep varies: `--vary hidden=30,300,[300,300]` is a setting and its values.

A value that has commas of its own stands in brackets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from phalanx.errors import UsageError
from phalanx.kinds import alternatives
from phalanx.options import Option
from phalanx.wording import key, unknown

_FORM = "takes a setting and its values, such as batch-size=16,64 or 'hidden=30,[300,300]'"
_SWITCH = {"true": True, "on": True, "false": False, "off": False}


@final
@dataclass(frozen=True)
class Axis:
    """A setting, by its name in Python, and the values that it takes one after the other."""

    name: str
    values: tuple[Any, ...]


def split_axis(text: str) -> tuple[str, list[str]]:
    """The name, as in Python, and the values of what stands behind `--vary`, as they are."""
    name, given, values = text.partition("=")
    if not given or not name.strip():
        raise UsageError(f"--vary {text}: {_FORM}")
    return name.strip().removeprefix("--").replace("-", "_"), _split(values, where=text)


def _split(text: str, *, where: str) -> list[str]:
    """The values between commas that are not inside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise UsageError(f"--vary {where}: a bracket has no other one: {_FORM}")
    values = [part.strip() for part in parts]
    if not all(values):
        raise UsageError(f"--vary {where}: a value is missing: {_FORM}")
    return [one[1:-1] if one[0] == "[" and one[-1] == "]" else one for one in values]


def parse_axis(text: str, known: Mapping[str, Option]) -> Axis:
    """What stands behind `--vary`, if it is a setting that is known and values that it takes."""
    name, texts = split_axis(text)
    if name not in known:
        raise unknown("setting", key(name), known=map(key, known), note=f" (in --vary {text})")
    values = tuple(_value(one, known[name]) for one in texts)
    for number, one in enumerate(values):
        if one in values[:number]:
            raise UsageError(f"--vary {text}: has {texts[number]} twice: once will do")
    return Axis(name, values)


def _value(text: str, option: Option) -> Any:
    where = _spelled(option.name)
    if alternatives(option.kind) == [bool] and text.lower() in _SWITCH:
        return _SWITCH[text.lower()]
    value = option.convert(text, where=where)
    option.check(value, spell=_spelled)
    return value


def _spelled(name: str) -> str:
    return f"--vary {key(name)}"


def shown(value: Any) -> str:
    """A value as a user writes it, without brackets."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
