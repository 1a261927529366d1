"""How long a sweep will still take, by what its trainings have taken so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, final


@final
@dataclass(frozen=True)
class Timed:
    """What varies in a training that is done, and the seconds it took."""

    values: Mapping[str, Any]
    seconds: float


@final
@dataclass(frozen=True)
class UnderWay:
    """A training that has done so many of its epochs in so many seconds of this turn."""

    values: Mapping[str, Any]
    epochs: int
    done: int
    done_before: int
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """By its own epochs, once one is done."""
        here = self.done - self.done_before
        return self.seconds / here * (self.epochs - self.done) if here > 0 else None


def seconds_left(
    done: Sequence[Timed], to_come: Sequence[Mapping[str, Any]], under_way: UnderWay | None = None
) -> float | None:
    """The seconds that what is to come will take, as if it were like what is done.

    Each training is taken to last as long as those that have most values in common with it; None as
    long as nothing is known.
    """
    total, known = 0.0, list(done)
    if under_way is not None:
        left = under_way.seconds_left
        if left is not None:
            known.append(Timed(under_way.values, under_way.seconds + left))
        elif known:
            left = max(0.0, _expected(under_way.values, known) - under_way.seconds)
        total += left or 0.0
    if not known:
        return None
    return total + sum(_expected(values, known) for values in to_come)


def _expected(values: Mapping[str, Any], done: Sequence[Timed]) -> float:
    common = [sum(one.values[name] == value for name, value in values.items()) for one in done]
    most = max(common)
    return fmean(one.seconds for one, count in zip(done, common, strict=True) if count == most)


def in_words(seconds: float | None) -> str:
    """A duration for people, such as: about 3 min; nothing as long as it is not known."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"
