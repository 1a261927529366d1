"""What a cell of a table holds: a number, nothing, or a word. Without torch."""

import math

# What people write, then programs, then spreadsheets.
_MISSING = frozenset(
    (
        *("", "?", "na", "n/a", "null", "none"),
        *("nan", "-nan", "+nan", "<na>", "nat", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
        *("#n/a", "#na", "#n/a n/a", "#null!", "#value!", "#div/0!", "#num!", "#ref!", "#name?"),
    )
)
# Classes may be + and -: only where numbers are expected do these stand for a missing one.
_BLANKS = frozenset(("-", "--", "–", "—", ".", ".."))


def parse_number(text: str) -> float | None:
    """The number that a cell holds, if it holds one that is finite."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def is_missing(text: str, *, beside_numbers: bool = False) -> bool:
    """Whether a cell says that its value is not known; a dash does so beside numbers alone."""
    return text.lower() in _MISSING or (beside_numbers and text in _BLANKS)


def is_infinite(text: str) -> bool:
    """Whether a cell holds a number without bounds, or one too large to be computed with."""
    try:
        return math.isinf(float(text))
    except ValueError:
        return False
