"""What the trainings of a sweep have come to: a row each, and how they compare."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

from phalanx.observe.rows import Row, Status
from phalanx.observe.sweep.axes import shown
from phalanx.observe.sweep.combinations import Combination
from phalanx.settings.panels import panel_of
from phalanx.settings.table import SETTINGS


@final
@dataclasses.dataclass(frozen=True)
class Outcome:
    """A training of a sweep and what has become of it."""

    combination: Combination
    row: Row
    #: What it took from its start to its end, over all its turns: also to start and to test.
    wall_seconds: float = 0.0
    #: Whether an earlier turn of the sweep has done it.
    kept: bool = False


def without_result(
    one: Combination, status: Status, *, short: str, reason: str = "", wall_seconds: float = 0.0
) -> Outcome:
    """A training that has come to nothing, or not yet."""
    row = Row(
        run=one.folder,
        strategy=one.settings.strategy or "",
        status=status,
        ranks=one.ranks,
        threads=one.settings.threads,
        short=short,
        reason=reason,
    )
    return Outcome(one, row, wall_seconds)


def speed_ups(outcomes: Sequence[Outcome]) -> list[float | None]:
    """How many times the samples a second of the same training on the fewest ranks that vary.

    None where that one has no result, or ranks do not vary.
    """
    bases: dict[str, tuple[int, float]] = {}
    for one in outcomes:
        if one.row.samples_per_second and "ranks" in one.combination.values:
            found = (one.combination.ranks, one.row.samples_per_second)
            bases[_but_ranks(one)] = min(found, bases.get(_but_ranks(one), found))
    fewest = min((one.combination.ranks for one in outcomes), default=1)
    speeds: list[float | None] = []
    for one in outcomes:
        ranks, rate = bases.get(_but_ranks(one), (0, 0.0))
        mine = one.row.samples_per_second
        speeds.append(mine / rate if mine and ranks == fewest else None)
    return speeds


def sizes_vary(names: Iterable[str]) -> bool:
    """Whether what varies may change the size of the model."""
    return any(name not in SETTINGS or panel_of(name) == "Model" for name in names)


def _but_ranks(one: Outcome) -> str:
    values = one.combination.values
    return " ".join(f"{name}={shown(values[name])}" for name in values if name != "ranks")


def plain(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The rows for a script: what varies first, then what came of it."""
    return [
        _values(one.combination.values)
        | {
            name: value
            for name, value in dataclasses.asdict(one.row).items()
            if name not in one.combination.values
        }
        | {"speed_up": speed, "wall_seconds": round(one.wall_seconds, 3)}
        for one, speed in zip(outcomes, speed_ups(outcomes), strict=True)
    ]


def _values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as they are, and texts for lists of them."""
    return {
        name: value if isinstance(value, int | float) else shown(value)
        for name, value in values.items()
    }
