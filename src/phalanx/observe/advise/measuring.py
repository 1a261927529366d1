"""What the ranks of `phalanx advise` measure: a few steps alone, all together, the exchange.

In rounds, one after the other and again: a machine has slow minutes, which then hit all alike.
"""

import time
from collections.abc import Callable
from statistics import fmean
from typing import Any, final

import torch

from phalanx.comm.hosts import arrange
from phalanx.observe.advise.alone import by_itself, gradient_bytes, time_alone
from phalanx.observe.advise.cores import with_all_cores
from phalanx.observe.advise.measurements import Measurements, Pace, Together, lower_quartile
from phalanx.observe.advise.probes import time_exchange, time_link, wait_for
from phalanx.observe.advise.sizes import time_sizes
from phalanx.observe.advise.stopwatch import Shares, TimedSteps
from phalanx.train.session import Session
from phalanx.train.training import make_trainer

_ROUNDS = 4
#: How many measurements a round has.
_IN_A_ROUND = 9
#: Rounds end early after so many times the seconds that were asked for: steps are long, then.
_PATIENCE = 4
#: Told what is being measured.
Tell = Callable[[str], None]


def measure(session: Session, tell: Tell, *, seconds: float) -> Measurements:
    """Collective. All of it, the same on every rank; steps for about so many seconds."""
    once = seconds / _ROUNDS / _IN_A_ROUND
    comm = session.comm
    batch = min(session.batch_size, session.training_count)
    hosts = arrange(comm)
    firsts = comm.allgather_objects(min(hosts.host.allgather_objects(comm.rank)))
    facts = _facts(session, batch)  # before a strategy moves the model
    rounds = _Rounds(session, batch, seconds=once)
    rounds.run(tell, until=_PATIENCE * seconds)
    alone, update = rounds.alone()
    together = rounds.together(hosts=len(set(firsts)))
    rounds.close()
    tell("what threads bring, and the exchange alone")
    exchanges = []
    if hosts.host.size > 1:
        exchanges = time_exchange(hosts.host, session.settings, strategy=session.strategy)
    found = Measurements(
        **facts,
        alone=alone,
        update=update,
        all_threads=with_all_cores(
            session,
            lambda: time_alone(session, batch, seconds=once, rounds=2)[0],
            samples=batch,
        ),
        together=together,
        exchanges=tuple(exchanges),
        link=time_link(comm, hosts),
        sizes=time_sizes(session, batch, tell, seconds=once),
    )
    hosts.free()
    return comm.broadcast_object(found)


def _facts(session: Session, batch: int) -> dict[str, Any]:
    """What is known without measuring."""
    return {
        "strategy": session.strategy,
        "samples": session.training_count,
        "batch": batch,
        "batch_grows": session.settings.batch_size_per_rank is not None,
        "threads": torch.get_num_threads(),
        "gradient": gradient_bytes(session.model),
        "overlaps": _overlaps(session),
        "parameters": sum(one.numel() for one in session.model.parameters()),
    }


def _overlaps(session: Session) -> bool:
    """Whether gradients go over the network while others are computed: yes, unless told otherwise
    or where they are added up in the order of shards."""
    if session.settings.shards is not None or session.settings.compile:
        return False
    return bool(session.settings.strategy_options.get("overlap", True))


def _parts(batch: int, ranks: int) -> list[int]:
    """Samples of a step to measure one rank with: a batch, a rank's part of it, and less."""
    wanted = {batch, -(-batch // ranks), -(-batch // (4 * ranks)), -(-batch // (16 * ranks))}
    return sorted(wanted | {1}, reverse=True)


@final
class _Rounds:
    """The steps of one rank alone, of all at the same time, and of the strategy on all ranks."""

    def __init__(self, session: Session, batch: int, *, seconds: float) -> None:
        """Collective. Each measurement of a round takes so many seconds."""
        self._comm = comm = session.comm
        self._seconds = seconds
        alone = by_itself(session)
        self._own, self._common = make_trainer(alone), make_trainer(session)
        parts = _parts(batch, comm.size) if comm.rank == 0 else []
        self._alone = [TimedSteps(alone, self._own, batch=samples) for samples in parts]
        self._beside = TimedSteps(alone, self._own, batch=-(-batch // comm.size))
        self._beside.agree(comm)
        self._together = TimedSteps(session, self._common, batch=batch)
        #: Of every round, seconds a step and imbalance of ranks beside each other.
        self._paces: list[tuple[float, float]] = []
        self._shares_alone: list[Shares] = []
        self._shares: list[Shares] = []

    def run(self, tell: Tell, *, until: float) -> None:
        """Collective. All rounds, or those that begin within so many seconds."""
        started = time.monotonic()
        for number in range(_ROUNDS):
            ranks, place = self._comm.size, f"round {number + 1} of {_ROUNDS}"
            tell(f"steps of one rank, and of {ranks} ranks, {place}")
            self._run_once()
            if self._comm.broadcast_object(time.monotonic() - started) > until:
                break

    def _run_once(self) -> None:
        for steps in self._alone:
            steps.run(self._seconds)
        self._shares_alone += [one.shares(self._seconds) for one in self._alone[:1]]
        wait_for(self._comm)
        self._run_beside()
        self._together.run(self._seconds)
        everyone = self._comm.allgather_objects(self._together.shares(self._seconds))
        self._shares.append(Shares(*map(fmean, zip(*everyone, strict=True))))

    def _run_beside(self) -> None:
        """Collective. Every rank by itself, at the same time: how far apart they are."""
        self._comm.barrier()
        self._beside.run(self._seconds)
        times = [step for epoch in self._beside.watch.epochs[1:] for step in epoch[1:] or epoch]
        everyone = self._comm.allgather_objects(times)
        slowest = fmean(max(ranks) for ranks in zip(*everyone, strict=True))
        mean = fmean(map(fmean, everyone))
        self._paces.append((fmean(map(lower_quartile, everyone)), slowest / mean - 1))

    def alone(self) -> tuple[tuple[Pace, ...], float]:
        """Collective. The first rank's paces, and the share of the update in the first of them."""
        found: tuple[tuple[Pace, ...], float] = (), 0.0
        if self._comm.rank == 0:
            found = tuple(one.pace for one in self._alone), min(self._shares_alone).update
        wait_for(self._comm)
        return self._comm.broadcast_object(found)

    def together(self, *, hosts: int) -> Together:
        """What all ranks came to; of where the time goes, that of the fastest round."""
        ranks, pace, shares = self._comm.size, self._together.pace, min(self._shares)
        return Together(ranks, hosts, pace, shares.meeting, shares.update, *min(self._paces))

    def close(self) -> None:
        """Collective."""
        self._own.close()
        self._common.close()
