"""What came of all faults, as a table."""

from collections.abc import Iterable
from statistics import median

from tests.chaos.trial import Outcome

_HEAD = ("fault", "tried", "same bits", "lost, median", "worst", "hangs", "left behind", "wrong")
Row = tuple[str, ...]


def rows(outcomes: Iterable[Outcome]) -> list[Row]:
    """A row for each kind."""
    kinds: dict[str, list[Outcome]] = {}
    for one in outcomes:
        if not one.skipped:
            kinds.setdefault(one.fault.name, []).append(one)
    return [_row(name, kinds[name]) for name in sorted(kinds)]


def _row(name: str, tried: list[Outcome]) -> Row:
    compared = [one.same_bits for one in tried if one.same_bits is not None]
    lost = [seconds for one in tried for seconds in one.seconds_lost]
    return (
        name,
        str(len(tried)),
        f"{sum(compared)} of {len(compared)}" if compared else "",
        f"{median(lost):.2f} s" if lost else "",
        f"{max(lost):.2f} s" if lost else "",
        str(sum(one.hangs for one in tried)),
        str(sum(bool(one.left) for one in tried)),
        str(sum(bool(one.problems) for one in tried)),
    )


def text(found: list[Row]) -> str:
    """In columns."""
    widths = [max(map(len, column)) for column in zip(_HEAD, *found, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (_HEAD, tuple("-" * width for width in widths), *found)
    )
