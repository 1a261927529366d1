"""The answer to "how many ranks should I use?" as numbers. Without torch."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from phalanx.observe.advise.costs import Costs, Efficiency
from phalanx.observe.advise.fitting import band, fit
from phalanx.observe.advise.helps import Help, helps
from phalanx.observe.advise.link import Link
from phalanx.observe.advise.measurements import Measurements
from phalanx.observe.advise.thresholds import batch_for, by_size, crossing, most_ranks

#: 1, 2, 4 … 8,192, and what the largest jobs have.
COUNTS = (*(1 << power for power in range(14)), 10_000)
#: What is called worth it: for ranks that are paid for, and at all.
GOOD, FAIR = 0.8, 0.5
#: Ranks at hand are used if an epoch then takes so much of what it took, or less.
_SHORTER = 0.9


@dataclass(frozen=True)
class Row:
    """An epoch on so many ranks."""

    ranks: int
    hosts: int
    batch: int
    seconds: float
    #: Between what it lies, as measurements do.
    least: float
    most: float
    speed_up: float
    efficiency: float
    load_balance: float
    communication_efficiency: float
    computation_scalability: float
    measured: bool


@dataclass(frozen=True)
class Advice:
    """What was found out; `use` is the number of ranks to take."""

    use: int
    #: Threads for each; more than elsewhere if one rank with all cores is best.
    threads: int
    #: An epoch of one rank with a thread for each core, if that was measured.
    all_threads: tuple[int, float] | None
    rows: tuple[Row, ...]
    #: The ranks that are asked about below: all that are at hand, or what is beyond what to use.
    about: int
    #: What keeps these from being as fast as they are many: compute, imbalance or exchange.
    limit: str
    #: The batch and the parameters from which they are used well.
    batch_for: int | None
    parameters_for: float | None
    #: Parameters of networks, and how well these ranks are used for each.
    efficiency_by_size: tuple[tuple[int, float], ...]
    #: The ranks that are used well, or fairly, and the fastest, over a network.
    good_ranks: int
    fair_ranks: int
    fastest_ranks: int
    helps: tuple[Help, ...]
    link: Link
    #: Whether nobody has said, nor measured, what is between hosts.
    link_assumed: bool

    def row(self, ranks: int) -> Row:
        return next(row for row in self.rows if row.ranks == ranks)

    def for_json(self) -> dict[str, Any]:
        return asdict(self)


def advise(
    found: Measurements, link: Link, *, assumed: bool, ranks_a_host: int | None = None
) -> Advice:
    """What these measurements speak for; the link is what there is between hosts."""

    def costs_of(drawn: Measurements) -> Costs:
        return fit(drawn, link, ranks_a_host=ranks_a_host)

    costs = costs_of(found)
    counts = sorted({*COUNTS, found.together.ranks})
    rows = tuple(_row(found, costs, costs_of, ranks) for ranks in counts)
    good, fair = (most_ranks(costs, counts, least=least) for least in (GOOD, FAIR))
    more = _with_threads(found)
    use, threads, about = _choose(found, rows, more, good=1 if assumed else good)
    curve = by_size(found, costs, about)
    return Advice(
        use=use,
        threads=threads,
        all_threads=more,
        rows=rows,
        about=about,
        limit=limit_of(costs.efficiency(about)),
        batch_for=batch_for(costs, about, efficiency=GOOD),
        parameters_for=crossing(curve, GOOD),
        efficiency_by_size=tuple(curve),
        good_ranks=good,
        fair_ranks=fair,
        fastest_ranks=min(rows, key=lambda row: row.seconds).ranks,
        helps=tuple(helps(costs, about)),
        link=link,
        link_assumed=assumed,
    )


def _choose(
    found: Measurements, rows: Sequence[Row], more: tuple[int, float] | None, *, good: int
) -> tuple[int, int, int]:
    """The ranks to use, the threads of each, and the ranks that questions are about.

    Of the ranks at hand it is the fewest that are nearly as fast as can be; of those over a known
    network, as many as are used well.
    """
    at_hand = found.together.ranks
    near = [row for row in rows if row.ranks <= at_hand]
    shortest = min(row.seconds for row in near)
    use = next(row.ranks for row in near if row.seconds <= shortest / _SHORTER)
    use = max(use, good)
    if more is not None and more[1] < _SHORTER * shortest and use <= at_hand:
        return 1, more[0], max(2, at_hand)
    beyond = next((row.ranks for row in rows if row.ranks > use), use)
    about = beyond if good > 1 and use >= at_hand else at_hand
    return use, found.threads, max(2, about)


def _with_threads(found: Measurements) -> tuple[int, float] | None:
    """An epoch of one rank with a thread for each core, and how many these are."""
    if found.all_threads is None:
        return None
    threads, pace = found.all_threads
    return threads, _epoch_of(found, pace.seconds)


def _epoch_of(found: Measurements, step: float) -> float:
    """An epoch of so long steps, beside what one rank takes between them."""
    return found.samples / found.alone[0].samples * step + found.alone[0].overhead


def _row(
    found: Measurements, costs: Costs, costs_of: Callable[[Measurements], Costs], ranks: int
) -> Row:
    least, most = band(found, lambda drawn: costs_of(drawn).epoch(ranks))
    seconds, factors = costs.epoch(ranks), costs.efficiency(ranks)
    together = found.together
    same = costs.ranks_a_host == together.ranks_a_host
    return Row(
        ranks=ranks,
        hosts=-(-ranks // costs.ranks_a_host),
        batch=costs.batch_of(ranks),
        seconds=seconds,
        least=min(least, seconds),
        most=max(most, seconds),
        speed_up=factors.whole * ranks,
        efficiency=factors.whole,
        load_balance=factors.load_balance,
        communication_efficiency=factors.communication,
        computation_scalability=factors.computation,
        measured=ranks == 1 or (ranks == together.ranks and same),
    )


def limit_of(factors: Efficiency) -> str:
    """The factor that takes most away."""
    by = {
        "imbalance": factors.load_balance,
        "exchange": factors.communication,
        "compute": factors.computation,
    }
    return min(by, key=lambda name: by[name])
