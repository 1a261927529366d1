"""What stands in for values that are missing, by the rows that a model is trained on.

Without torch.
"""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeVar

from phalanx.data.tables.cells import is_missing, parse_number
from phalanx.data.tables.table import Column, make_column

#: How missing values are filled in: those of words by the most frequent one under mean and median.
Missing = Literal["refuse", "mean", "median", "most-frequent", "category"]
REFUSE: Missing = "refuse"
#: The category of its own that a missing word is; no other can be called so.
NOTHING = ""

_Value = TypeVar("_Value", str, float)


def gaps(column: Column) -> list[int]:
    """The rows without a value; a dash stands for none among numbers alone."""
    if column.numbers is not None:
        return []
    numbers = holds_numbers(column)
    values = enumerate(column.values)
    return [row for row, value in values if is_missing(value, beside_numbers=numbers)]


def holds_numbers(column: Column) -> bool:
    """Whether all that is there are numbers, and there are some."""
    if column.numbers is not None:
        return True
    known = [one for one in column.values if not is_missing(one, beside_numbers=True)]
    return bool(known) and all(parse_number(value) is not None for value in known)


def stand_in(column: Column, how: Missing, *, rows: Sequence[int]) -> str | None:
    """What the missing values of a column are replaced by, as it would be written in a cell.

    `rows` are those to go by; if they have no value, there is nothing to take.
    """
    if how == REFUSE:
        return None
    numbers = holds_numbers(column)
    if how == "category" and not numbers:
        return NOTHING
    there = [column.values[row] for row in rows]
    there = [value for value in there if not is_missing(value, beside_numbers=numbers)]
    if not there:
        return None
    if not numbers:
        return _most_frequent(there)
    values = [float(value) for value in there]
    if how == "most-frequent":
        return repr(_most_frequent(values))
    return repr(statistics.median(values) if how == "median" else math.fsum(values) / len(values))


def filled(column: Column, fill: str | None, *, numbers: bool) -> Column:
    """The column with something in place of its missing values, if there is something."""
    if fill is None or (numbers and column.numbers is not None):
        return column
    values = [fill if is_missing(one, beside_numbers=numbers) else one for one in column.values]
    return make_column(column.name, values)


def _most_frequent(values: Sequence[_Value]) -> _Value:
    """The one that comes most often; of several the smallest, whatever the order of the rows."""
    counted = Counter(values)
    most = max(counted.values())
    return min(value for value, count in counted.items() if count == most)
