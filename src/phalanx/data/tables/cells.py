"""What a cell of a table holds: a number, nothing, or a word. Without torch."""

import re

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

# Decimals after a comma, and thousands set apart: 1,5 or 1.234,5 or 1,234.5 or 1 234 or 1'234.
_SEPARATED = re.compile(
    r"""[+-]? ( \d+,\d+ | \d{1,3} ( (,\d{3})+ | ([ '’\u00a0\u202f]\d{3})+ ) ([.,]\d+)?
    | \d{1,3} (\.\d{3})+ ,\d+ )""",
    re.VERBOSE,
)


#: The largest that models compute with, which is float32's.
LARGEST_NUMBER = 3.4028234663852886e38


def parse_number(text: str) -> float | None:
    """The number that a cell holds, if it holds one that is finite."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) <= LARGEST_NUMBER else None


def has_separators(text: str) -> bool:
    """Whether a cell seems to hold a number with a decimal comma, or with thousands set apart."""
    return _SEPARATED.fullmatch(text) is not None


def is_missing(text: str, *, beside_numbers: bool = False) -> bool:
    """Whether a cell says that its value is not known; a dash does so beside numbers alone."""
    return text.lower() in _MISSING or (beside_numbers and text in _BLANKS)


def is_infinite(text: str) -> bool:
    """Whether a cell holds a number without bounds, or one too large to be computed with."""
    try:
        return abs(float(text)) > LARGEST_NUMBER
    except ValueError:
        return False
