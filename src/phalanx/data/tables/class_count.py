"""How many classes there may be: more are taken for the numbers of a regression. Without torch."""

from phalanx.errors import DataError

#: Different values in a table, and whole numbers that are meant as labels.
MOST_VALUES, MOST_LABELS = 1000, 100_000


def check_class_count(count: float, most: int, *, where: str, seen: str, fix: str) -> None:
    """Raise a DataError for too many classes; `seen` says what they were counted by."""
    if count > most:
        raise DataError(
            f"{where} has more than {most:,} classes ({seen}): regression is not supported; {fix}"
        )
