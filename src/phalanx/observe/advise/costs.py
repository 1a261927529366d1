"""The model: what a step, and with it an epoch, takes on any number of ranks. Without torch.

A step computes, waits for the slowest rank, exchanges and updates. The words are those of the POP
project: efficiency = load balance × communication efficiency × computation scalability.
"""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from phalanx.observe.advise.curve import Curve
from phalanx.observe.advise.link import Link

#: The backward pass, as a share of computing; and what of a gradient is known only at its end.
_BACKWARD, _LAST = 2 / 3, 1 / 8


@dataclass(frozen=True)
class Step:
    """A step on so many ranks: where the seconds of one rank go."""

    ranks: int
    #: Computing, on average over the ranks.
    useful: float
    #: Waiting for the slowest.
    imbalance: float
    exchange: float

    @property
    def seconds(self) -> float:
        return self.useful + self.imbalance + self.exchange


@dataclass(frozen=True)
class Efficiency:
    """How well ranks are used, as factors: 1 is all that they can do."""

    load_balance: float
    communication: float
    computation: float

    @property
    def parallel(self) -> float:
        """Of the time of all ranks, the share in which they compute."""
        return self.load_balance * self.communication

    @property
    def whole(self) -> float:
        """The speed-up over one rank, divided by the ranks."""
        return self.parallel * self.computation


@dataclass(frozen=True)
class Costs:
    """What was fitted to measurements, all in seconds, and what follows for any ranks."""

    #: Samples of an epoch; of a step, or if `batch_grows` those of a step and rank.
    samples: int
    batch: int
    batch_grows: bool
    #: Forward and backward on one rank alone, by samples.
    compute: Curve
    #: All weights on one rank alone; and those of one among others, as measured.
    update: float
    update_share: float
    #: Whether the ranks of a host share the update.
    sliced: bool
    #: On how many ranks, and ranks of a host, what follows was measured.
    measured: int
    measured_here: int
    #: What each of these takes longer to compute than one alone: as a factor, and in any case.
    contention: float
    extra: float
    #: How much longer the slowest of them computes than they do on average.
    imbalance: float
    #: The exchange between the ranks of a host, by the bytes of a gradient.
    exchange: Curve
    gradient: float
    #: How many ranks every host is to have, and what is between hosts.
    ranks_a_host: int
    link: Link
    #: Whether gradients go over the network while others are still computed.
    overlaps: bool = False
    #: What the exchange between hosts took, as a multiple of what the link alone accounts for.
    over_link: float = 1.0
    #: Seconds an epoch beside its steps: of one rank, and of several.
    overhead: tuple[float, float] = (0.0, 0.0)
    #: Steps between two exchanges, and passes that a step is computed in.
    every: int = 1
    passes: int = 1
    #: Of the bytes of a gradient, those that go over the network.
    compressed: float = 1.0

    def batch_of(self, ranks: int) -> int:
        """Samples a step over so many ranks."""
        return self.batch * ranks if self.batch_grows else self.batch

    def step(self, ranks: int, batch: float | None = None) -> Step:
        """A step on so many ranks, of so many samples over all of them."""
        batch = self.batch_of(ranks) if batch is None else batch
        if ranks == 1:
            return Step(1, self._alone(batch) + self.update, 0.0, 0.0)
        here = min(ranks, self.ranks_a_host)
        factor = self._contention(here)
        mean = factor * self._alone(batch / ranks) + self.extra
        largest_part = factor * self._alone(math.ceil(batch / ranks)) + self.extra
        slowest = largest_part * (1 + self._noise(ranks))
        update = self.update_share * (self.measured_here / here if self.sliced else 1.0)
        exchange = self._exchange(ranks, beside=_BACKWARD * slowest if self.overlaps else 0.0)
        return Step(ranks, mean + update, max(0.0, slowest - mean), exchange)

    def _alone(self, samples: float) -> float:
        """Forward and backward of one rank; of less than a sample, so many ranks have nothing."""
        part = samples / self.passes
        return self.passes * (self.compute(part) if part >= 1 else part * self.compute(1))

    def _contention(self, here: int) -> float:
        """Of so many ranks on a host: in proportion to the others."""
        if self.measured_here == 1:
            return self.contention
        return 1 + (self.contention - 1) * (here - 1) / (self.measured_here - 1)

    def _noise(self, ranks: int) -> float:
        """The slowest of more ranks is slower: as the largest of so many normal numbers."""
        if self.measured == 1:
            return 0.0
        grown = self.imbalance * largest(ranks) / largest(self.measured)
        return grown / math.sqrt(self.every)  # who waits seldom waits for the sum of some steps

    def _exchange(self, ranks: int, *, beside: float) -> float:
        """What ranks wait for it; so many seconds of it go on while they compute."""
        here, hosts = min(ranks, self.ranks_a_host), -(-ranks // self.ranks_a_host)
        wire = self.link.all_sum(self.gradient * self.compressed, hosts=hosts)
        found = max(wire - beside, _LAST * wire) * self.over_link
        if here > 1:
            rounds = math.log2(here) / math.log2(self.measured_here)
            least = self.exchange(0)
            found += rounds * least + self.exchange(self.gradient) - least
        return found / self.every

    def epoch(self, ranks: int) -> float:
        """The seconds of an epoch: whole batches, and what is left."""
        batch = min(self.batch_of(ranks), self.samples)
        steps, rest = divmod(self.samples, batch)
        taken = steps * self.step(ranks, batch).seconds
        if rest:
            taken += self.step(ranks, rest).seconds
        return taken + self.overhead[ranks > 1]

    def efficiency(self, ranks: int) -> Efficiency:
        """How well so many ranks are used, beside one that computes as many samples."""
        one, step = self._one(ranks), self.step(ranks)
        slowest = step.useful + step.imbalance
        return Efficiency(
            load_balance=step.useful / slowest,
            communication=slowest / step.seconds,
            computation=one / (ranks * step.useful),
        )

    def _one(self, ranks: int) -> float:
        """What one rank takes for what so many do in a step."""
        if not self.batch_grows:
            return self.step(1).seconds
        return ranks * self.step(1, self.batch).seconds

    def with_batch(self, batch: int) -> "Costs":
        return replace(self, batch=batch)

    def deeper(self, factor: float) -> "Costs":
        """For a network of so many times as many layers."""
        return replace(
            self,
            compute=self.compute.times(factor),
            update=self.update * factor,
            update_share=self.update_share * factor,
            gradient=self.gradient * factor,
        )


def largest(count: int) -> float:
    """About the mean of the largest of so many normally distributed numbers (Blom)."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25)) if count > 1 else 0.0
