"""Measurements as a machine would give them that follows the model exactly."""

from phalanx.observe.advise.link import Link
from phalanx.observe.advise.measurements import Exchanged, Measurements, Pace, Together

NO_TIME = Link(bandwidth=1e18, latency=0.0)


def pace(samples: int, seconds: float, *, overhead: float = 0.0) -> Pace:
    return Pace(samples, ((seconds,) * 4,) * 2, overhead)


def made_up(
    *,
    fixed: float = 0.0,
    a_sample: float = 1e-3,
    update: float = 0.0,
    exchange: float = 0.0,
    imbalance: float = 0.0,
    contention: float = 1.0,
    extra: float = 0.0,
    batch: int = 64,
    samples: int = 640,
    ranks: int = 2,
    hosts: int = 1,
    link: Link | None = None,
    gradient: int = 1 << 20,
) -> Measurements:
    """A machine on which a step takes `fixed` + `a_sample` × samples, and so on, in seconds."""

    parts = sorted({batch, batch // 2, batch // 8, 1}, reverse=True)
    one = fixed + a_sample * batch + update
    beside = contention * (fixed + a_sample * batch / ranks)
    computing, updating = beside + extra, update / (ranks // hosts)
    meeting = exchange + imbalance * computing
    whole = computing + meeting + updating
    at_once = (meeting / whole, updating / whole, beside + update, imbalance)
    return Measurements(
        strategy="central",
        samples=samples,
        batch=batch,
        batch_grows=False,
        threads=1,
        gradient=gradient,
        parameters=gradient // 4,
        alone=tuple(pace(part, fixed + a_sample * part + update) for part in parts),
        update=update / one,
        all_threads=None,
        together=Together(ranks, hosts, pace(batch, whole), *at_once),
        exchanges=(Exchanged(1, exchange), Exchanged(1 << 25, exchange)) if hosts == 1 else (),
        link=link,
    )
