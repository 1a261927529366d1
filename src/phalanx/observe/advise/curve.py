"""A quantity that grows with another, known at a few places: straight lines between them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise


@dataclass(frozen=True)
class Curve:
    """What was measured at which places, from the smallest place on; it never falls."""

    places: tuple[float, ...]
    values: tuple[float, ...]

    def __call__(self, place: float) -> float:
        """Between two places as the line through them, and beyond the last as it was before; below
        the first as the line that the first two lie on, which may not go under 0."""
        if len(self.places) == 1:
            return self.values[0]
        pieces = list(pairwise(zip(self.places, self.values, strict=True)))
        left, right = next(
            (piece for piece in pieces if place <= piece[1][0]),
            pieces[-1],
        )
        slope = (right[1] - left[1]) / (right[0] - left[0])
        return max(0.0, left[1] + slope * (place - left[0]))

    def times(self, factor: float) -> "Curve":
        """The same with all values so many times as large."""
        return Curve(self.places, tuple(factor * one for one in self.values))


def curve(points: Iterable[tuple[float, float]]) -> Curve:
    """Through these points; one that is lower than another before it was mismeasured."""
    ordered = sorted(points)
    places = tuple(place for place, _ in ordered)
    return Curve(places, tuple(accumulate((value for _, value in ordered), max)))
