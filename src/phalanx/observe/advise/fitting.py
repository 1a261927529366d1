"""From measurements to the model of costs, and how far off that may be. Without torch."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import quantiles

from phalanx.observe.advise.costs import Costs
from phalanx.observe.advise.curve import curve
from phalanx.observe.advise.link import Link
from phalanx.observe.advise.measurements import Measurements, Pace

#: Under which the ranks of a host share the update.
_SLICED = ("central",)
_DRAWS = 200
#: Seconds that are never divided by less than.
_LEAST = 1e-9


def fit(found: Measurements, link: Link, *, ranks_a_host: int | None = None) -> Costs:
    """The costs that these measurements speak for, with hosts of so many ranks: as many as were
    measured, or fewer. The link is what there is, or would be, between hosts."""
    together = found.together
    ranks, taken = together.ranks, together.pace.seconds
    meeting, updating = taken * together.exchange, taken * together.update
    computing = max(taken - meeting - updating, _LEAST)
    costs = _uncalibrated(found, found.link or link)
    mine = max(costs.compute(found.batch / ranks), _LEAST)
    part = max(costs.compute(math.ceil(found.batch / ranks)), _LEAST)
    contention = min((together.beside - costs.update) / part, computing / mine)
    contention = max(contention, min(1.0, computing / mine))
    costs = replace(
        costs,
        update_share=updating,
        contention=contention,
        extra=computing - contention * mine,
    )
    modelled = costs.step(ranks).exchange
    exchange = min(meeting, max(modelled, meeting - together.imbalance * computing))
    ratio = exchange / modelled if modelled else 1.0
    return replace(
        costs,
        imbalance=_unevenness(costs, (meeting - exchange) / computing),
        exchange=costs.exchange.times(ratio),
        over_link=ratio if together.hosts > 1 else 1.0,
        link=link,
        ranks_a_host=costs.ranks_a_host if ranks_a_host is None else ranks_a_host,
    )


def _uncalibrated(found: Measurements, link: Link) -> Costs:
    """What one rank alone costs, and the exchange alone."""
    whole, together = found.alone[0], found.together
    update = whole.seconds * found.update
    exchanges = [(one.bytes, one.seconds) for one in found.exchanges]
    return Costs(
        samples=found.samples,
        batch=found.batch // together.ranks if found.batch_grows else found.batch,
        batch_grows=found.batch_grows,
        compute=curve((one.samples, max(0.0, one.seconds - update)) for one in found.alone),
        update=update,
        update_share=update,
        sliced=found.strategy in _SLICED,
        measured=together.ranks,
        measured_here=together.ranks_a_host,
        contention=1.0,
        extra=0.0,
        imbalance=0.0,
        exchange=curve(exchanges or [(0.0, 0.0)]),
        gradient=found.gradient,
        ranks_a_host=together.ranks_a_host,
        link=link,
        overlaps=found.overlaps,
        overhead=(whole.overhead, together.pace.overhead),
    )


def _unevenness(costs: Costs, waiting: float) -> float:
    """The imbalance, without that part of the waiting that uneven parts of a batch explain."""
    step = costs.step(costs.measured)
    uneven = step.imbalance / step.useful
    return max(0.0, (1 + waiting) / (1 + uneven) - 1)


def band(found: Measurements, predict: Callable[[Measurements], float]) -> tuple[float, float]:
    """Between what a prediction lies, nine times out of ten, as the measured blocks of steps lie
    apart: each time another block of each stands for all of them."""
    draw = random.Random(0)
    values = [predict(_drawn(found, draw)) for _ in range(_DRAWS)]
    cuts = quantiles(values, n=20)
    return cuts[0], cuts[-1]


def _drawn(found: Measurements, draw: random.Random) -> Measurements:
    def one(pace: Pace) -> Pace:
        return replace(pace, rounds=((draw.choice(pace.blocks),),))

    together = replace(found.together, pace=one(found.together.pace))
    return replace(found, alone=tuple(map(one, found.alone)), together=together)
