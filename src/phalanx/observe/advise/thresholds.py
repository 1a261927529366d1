"""From which batch, and from which network on, so many ranks are worth it. Without torch."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from phalanx.observe.advise.costs import Costs
from phalanx.observe.advise.measurements import Measurements, Size

#: Batches beyond this are nobody's.
_LARGEST_BATCH = 1 << 24
#: How many times as deep as it is a network might be.
_DEPTHS = tuple(2.0**power for power in range(-4, 11))


def batch_for(costs: Costs, ranks: int, *, efficiency: float) -> int | None:
    """The smallest batch from which so many ranks are used so well; None if none is enough."""

    def reached(batch: int) -> bool:
        return costs.with_batch(batch).efficiency(ranks).whole >= efficiency

    high = ranks
    while not reached(high):
        high *= 2
        if high > _LARGEST_BATCH:
            return None
    low = high // 2 if high > ranks else 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def by_size(found: Measurements, costs: Costs, ranks: int) -> list[tuple[int, float]]:
    """The efficiency of so many ranks by the parameters of a network: of those that were measured
    in other sizes, or else of deeper and shallower ones."""
    if found.sizes:
        return [
            (size.parameters, at_size(costs, size).efficiency(ranks).whole) for size in found.sizes
        ]
    return [
        (round(depth * found.parameters), costs.deeper(depth).efficiency(ranks).whole)
        for depth in _DEPTHS
    ]


def at_size(costs: Costs, size: Size) -> Costs:
    """What a network of another size costs: one rank alone was measured, the rest scales."""
    update = size.whole.seconds * size.update
    points = sorted({one.samples: one.seconds for one in (size.whole, size.part)}.items())
    places, values = zip(*points, strict=True)
    return replace(
        costs,
        compute=replace(
            costs.compute, places=places, values=tuple(max(0.0, one - update) for one in values)
        ),
        update=update,
        update_share=costs.update_share * (update / costs.update if costs.update else 1.0),
        gradient=size.gradient,
    )


def crossing(points: Sequence[tuple[int, float]], level: float) -> float | None:
    """Where a curve reaches a level for good, between its points; None if it does not."""
    if not points or points[-1][1] < level:
        return None
    for (left, before), (right, after) in reversed(list(pairwise(points))):
        if before < level:
            share = (level - before) / (after - before)
            return math.exp(math.log(left) + share * (math.log(right) - math.log(left)))
    return float(points[0][0])


def most_ranks(costs: Costs, counts: Sequence[int], *, least: float) -> int:
    """The last of these counts up to which ranks are used so well, one by one."""
    most = counts[0]
    for ranks in counts:
        if costs.efficiency(ranks).whole < least:
            break
        most = ranks
    return most
