"""Files of KEY=VALUE lines: recognised by their keys, and every value a number."""

import math
import re
from collections.abc import Collection, Iterator, Mapping

from phalanx.errors import UsageError
from phalanx.wording import shortened, unknown

#: The keys of a kind of file, and what each value is read as.
Kinds = Mapping[str, type[int] | type[float]]

_LINE = re.compile(r"(?:export\s+)?([^=\s]+)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(["'])(.*)\1""")


def is_recognised(text: str, kinds: Kinds) -> bool:
    """Whether a line has one of the keys, whatever the case of its letters."""
    known = {key.lower() for key in kinds}
    return any(key.lower() in known for _, key, _ in _lines(text))


def parse(
    text: str, kinds: Kinds, *, source: str, optional: Collection[str] = ()
) -> dict[str, int | float]:
    """The numbers by key; a UsageError names the source and the line of what is wrong.

    Every key is needed but the `optional` ones.
    """
    found: dict[str, int | float] = {}
    lines: dict[str, int] = {}
    for number, key, value in _lines(text):
        where = f"{source}, line {number}"
        if not key:
            raise UsageError(f"{where}: '{shortened(value)}' is not of the form KEY=VALUE")
        if key not in kinds:
            raise _unknown(key, kinds, where=where)
        if key in lines:
            raise UsageError(f"{where}: {key} stands in line {lines[key]} already")
        lines[key] = number
        found[key] = _number(_plain(value), kinds[key], where=f"{where}: {key}")
    missing = [key for key in kinds if key not in found and key not in optional]
    if missing:
        raise UsageError(f"{source}: has no {', no '.join(missing)}, which it needs")
    return found


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Number, key and value of every line that is neither empty nor a comment.

    A line of another form has no key, and is all value.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if line and not line.startswith("#"):
            found = _LINE.fullmatch(line)
            yield (number, found[1], found[2]) if found else (number, "", line)


def _unknown(key: str, kinds: Kinds, *, where: str) -> UsageError:
    same = [known for known in kinds if known.lower() == key.lower()]
    if same:
        return UsageError(f"{where}: unknown key '{key}': did you mean '{same[0]}'?")
    return UsageError(f"{where}: {unknown('key', key, known=kinds)}")


def _plain(value: str) -> str:
    """A value without quotes, and without a comment behind it."""
    value = value.partition("#")[0].strip()
    quoted = _QUOTED.fullmatch(value)
    return quoted[2].strip() if quoted else value


def _number(text: str, kind: type[int] | type[float], *, where: str) -> int | float:
    try:
        number = kind(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:  # what is no number is in no range
        wanted = "a number" if kind is float else "a whole number"
        raise UsageError(f"{where} must be {wanted} above 0, not '{shortened(text)}'")
    return number
