"""Advice in sentences: what to do first, and then why. Without torch."""

from collections.abc import Iterator

from phalanx.observe.advise.advice import FAIR, GOOD, Advice, Row
from phalanx.observe.advise.measurements import Measurements
from phalanx.wording import counted

_LIMITS = {
    "compute": "the computation itself: a rank's part of a batch costs more than its share, since "
    "some of a step's cost does not shrink with the samples, or ranks share caches and memory",
    "imbalance": "imbalance: ranks wait for the slowest one of each step",
    "exchange": "the exchange: ranks wait for gradients to be added up",
}


def headline(advice: Advice) -> str:
    """The answer."""
    row = advice.row(advice.use)
    threads = ""
    seconds, between = row.seconds, f" ({duration(row.least)} to {duration(row.most)})"
    if advice.use == 1 and advice.all_threads is not None and advice.threads > 1:
        seconds, between = advice.all_threads[1], ""
        threads = f" with --threads {advice.threads}"
    return (
        f"Use {counted(advice.use, 'rank')}{threads}: an epoch takes {duration(seconds)}{between}."
    )


def sentences(found: Measurements, advice: Advice, *, epochs: int) -> Iterator[str]:
    """What to know besides, a sentence or two each."""
    if (row := advice.row(advice.use)) and epochs > 1:
        yield f"{counted(epochs, 'epoch')} of it: {duration(epochs * row.seconds)}."
    yield from _beside(found, advice)
    yield _why(advice.row(advice.about), advice.limit)
    yield _batch(advice, grows=found.batch_grows)
    yield _network(found, advice)
    if advice.use > 1 or not advice.link_assumed or advice.good_ranks > 1:
        yield _cluster(advice)
    elif any(row.hosts > 1 for row in advice.rows):
        yield f"Rows of several hosts assume {advice.link} between them: say --network."


def _beside(found: Measurements, advice: Advice) -> Iterator[str]:
    """What else is at hand."""
    others = {1, found.together.ranks} - {advice.use}
    for ranks in sorted(others):
        row = advice.row(ranks)
        yield (
            f"{counted(ranks, 'rank')}: {duration(row.seconds)} an epoch "
            f"({duration(row.least)} to {duration(row.most)})"
            + (f", {row.speed_up:.2f} times as fast as one." if ranks > 1 else ".")
        )
    if advice.all_threads is not None and advice.threads != advice.all_threads[0]:
        threads, seconds = advice.all_threads
        yield f"1 rank with --threads {threads}: {duration(seconds)} an epoch."


def _why(row: Row, limit: str) -> str:
    parallel = row.load_balance * row.communication_efficiency
    return (
        f"What limits {counted(row.ranks, 'rank')} is {_LIMITS[limit]}. Load balance "
        f"{row.load_balance:.2f} × communication efficiency {row.communication_efficiency:.2f} = "
        f"parallel efficiency {parallel:.2f}; × computation scalability "
        f"{row.computation_scalability:.2f} = efficiency {row.efficiency:.2f}."
    )


def _batch(advice: Advice, *, grows: bool) -> str:
    unit = " a rank" if grows else ""
    ranks, batch = counted(advice.about, "rank"), advice.row(advice.about).batch
    now = batch // advice.about if grows else batch
    if advice.batch_for is None:
        return f"No batch is large enough for {ranks} to reach {GOOD:.0%} efficiency."
    if advice.batch_for <= now:
        return f"{ranks} reach {GOOD:.0%} efficiency with this batch of {now:,} samples{unit}."
    return (
        f"{ranks} reach {GOOD:.0%} efficiency from a batch of {advice.batch_for:,} samples{unit} "
        f"on; here it has {now:,}."
    )


def _network(found: Measurements, advice: Advice) -> str:
    ranks = counted(advice.about, "rank")
    how = "wide" if found.sizes else "deep"
    if advice.parameters_for is None:
        largest = f", up to {found.sizes[-1].parameters:,} parameters" if found.sizes else ""
        return (
            f"With this batch no network is {how} enough for {ranks} to reach {GOOD:.0%}{largest}."
        )
    return (
        f"With this batch {ranks} reach {GOOD:.0%} efficiency from about "
        f"{_rounded(advice.parameters_for):,} parameters on, in a network as {how} as that takes; "
        f"here there are {found.parameters:,}."
    )


def _cluster(advice: Advice) -> str:
    last = advice.rows[0]
    for row in advice.rows:
        last = row if row.hosts == 1 else last
    origin = " (assumed: say --network)" if advice.link_assumed else ""
    fastest = advice.row(advice.fastest_ranks)
    return (
        f"On hosts of {counted(last.ranks, 'rank')} with {advice.link} between them{origin}, the "
        f"efficiency stays at {GOOD:.0%} or above up to {counted(advice.good_ranks, 'rank')}, at "
        f"{FAIR:.0%} or above up to {advice.fair_ranks:,}; the shortest epoch, "
        f"{duration(fastest.seconds)}, takes {advice.fastest_ranks:,}."
    )


def _rounded(number: float) -> int:
    """To two digits: nobody knows it better."""
    return int(float(f"{number:.1e}"))


def duration(seconds: float) -> str:
    """As a person reads it, in three digits."""
    for unit, size in (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if seconds < 1000 * size and (unit != "s" or seconds < 100):
            return f"{seconds / size:.3g} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
