"""How many bytes each strategy sends in a step, worked out before anything is trained.

Counted is what all ranks together hand to the communicator, as `phalanx.comm.counted` counts it: a
sum over all ranks counts every rank's buffer, a broadcast its root's, a message its sender's. All
is for one host, for batches that leave no rank without samples, and for a strategy's defaults.

Importing this does not import torch: the formulas can be shown without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from phalanx.exchange.flat import Layout

#: The default of local.py, which imports torch.
EVERY = 8
#: A target is a class's number, in 64 bits.
_TARGET = 8


@dataclass(frozen=True)
class Estimate:
    """Bytes a step over all ranks: one number or, if it depends on more than is known, a range."""

    least: float
    most: float
    exact: bool = False


@dataclass(frozen=True, eq=False)
class Workload:
    """A model, its samples and its ranks: what there is to send, in bytes."""

    model: nn.Module
    input_shape: tuple[int, ...]
    ranks: int
    #: Samples a step over all ranks.
    batch_size: int

    @cached_property
    def _layouts(self) -> list[Layout]:
        from phalanx.exchange.flat import layouts

        return layouts(self.model)

    def sample(self) -> Tensor:
        """A batch of one sample of zeros, in what samples are cast to."""
        import torch

        first = next(self.model.parameters(), None)
        dtype = torch.get_default_dtype() if first is None else first.dtype
        return torch.zeros(1, *self.input_shape, dtype=dtype)

    @property
    def gradient(self) -> int:
        """A rank's flat gradient, with a mark for each parameter."""
        return sum(one.row_length * one.dtype.itemsize for one in self._layouts)

    @property
    def weights(self) -> int:
        """The flat weights."""
        return sum(one.length * one.dtype.itemsize for one in self._layouts)

    @property
    def batch(self) -> int:
        """The inputs and targets of a global batch."""
        return self.batch_size * (self.sample().nbytes + _TARGET)


@dataclass(frozen=True)
class Formula:
    """A strategy's bytes a step, in words and in numbers."""

    words: str
    compute: Callable[[Workload], Estimate]


def estimate(strategy: str, workload: Workload) -> Estimate | None:
    """The bytes a step of a strategy, or None for one that is not known here.

    Raises UsageError for a model that the strategy would refuse.
    """
    formula = FORMULAS.get(strategy)
    if formula is None:
        return None
    return _exactly(0) if workload.ranks == 1 else formula.compute(workload)


def _exactly(count: float) -> Estimate:
    return Estimate(count, count, exact=True)


def _server(work: Workload) -> Estimate:
    return _exactly((work.ranks - 1) * (work.gradient + work.weights))


def _gather(work: Workload) -> Estimate:
    return _exactly(work.batch + (work.ranks - 1) * work.gradient + work.weights)


def _asynchronous(work: Workload) -> Estimate:
    """As a server; how many short notes there are besides depends on who comes first."""
    known = _server(work)
    return Estimate(known.least, known.most)


def _pipeline(work: Workload) -> Estimate:
    """Where the cuts will be is measured later: from the narrowest places to the widest."""
    from phalanx.observe.layer_traffic import crossings

    cuts = work.ranks - 1
    places = sorted(crossings(work.model, work.sample(), stages=work.ranks))
    return Estimate(
        work.batch_size * sum(places[:cuts]), work.batch_size * sum(places[len(places) - cuts :])
    )


def _tensor(work: Workload) -> Estimate:
    from phalanx.observe.layer_traffic import meetings

    sent = work.batch_size * meetings(work.model, work.sample(), ranks=work.ranks)
    return Estimate(sent, sent)


FORMULAS = {
    "single": Formula("none", lambda work: _exactly(0)),
    "allreduce": Formula("ranks × gradient", lambda work: _exactly(work.ranks * work.gradient)),
    "central": Formula("none on one host", lambda work: _exactly(0)),
    "server": Formula("(ranks - 1) × (gradient + weights)", _server),
    "gather": Formula("batch + (ranks - 1) × gradient + weights", _gather),
    "async": Formula("(ranks - 1) × (gradient + weights), and short notes", _asynchronous),
    "local": Formula(
        f"ranks × weights ÷ {EVERY}, or what --every says",
        lambda work: _exactly(work.ranks * work.weights / EVERY),
    ),
    "pipeline": Formula(
        "2 × the batch's activations at each of the ranks - 1 cuts, which depends on the cuts",
        _pipeline,
    ),
    "tensor": Formula(
        "ranks × the batch's activations after each pair of layers, and as much before it on the "
        "way back",
        _tensor,
    ),
}
