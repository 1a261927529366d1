"""`--exchange auto --lossy`: what gradients travel as is chosen by what the first steps take.

They are exchanged as they are, after the backward pass, which shows how long a step computes and
how long the link takes by itself. A compression sends a known share of the bytes, and its step
takes about as long as the longer one of computing and sending. Of those that are about as fast as
the fastest, the one that loses least is taken; that may be none.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import final

from torch import Tensor

from phalanx.comm.algorithm_names import AUTO
from phalanx.comm.base import Communicator
from phalanx.exchange.compressions import share_sent
from phalanx.exchange.flat import FlatBlock
from phalanx.state import State
from phalanx.strategies.base import TextTable
from phalanx.strategies.building_blocks.error_feedback import Names
from phalanx.strategies.building_blocks.exchanges import Exchange, Way

#: Steps that are measured, behind a first one that has everything to warm up.
_STEPS = 3
#: From the one that loses nothing to the one that loses most.
_CANDIDATES = (None, "bf16", "int8", "low-rank")
#: How much slower than the fastest may be what loses less.
_TOLERANCE = 1.05


def make_exchange(
    comm: Communicator, blocks: Sequence[FlatBlock], way: Way, *, make: Callable[[Way], Exchange]
) -> Exchange:
    """Collective. What `make` makes of the way, or of the one that is found to suit best."""
    if way.compress != AUTO:
        return make(way)
    if comm.size == 1:
        return make(replace(way, compress=None))
    return ChosenExchange(comm, blocks, way, make=make)


@final
class ChosenExchange(Exchange):
    """Another exchange, which is made anew when it is known what travels best."""

    def __init__(
        self,
        comm: Communicator,
        blocks: Sequence[FlatBlock],
        way: Way,
        *,
        make: Callable[[Way], Exchange],
    ) -> None:
        self._comm, self._blocks, self._way, self._make = comm, blocks, way, make
        self._inner = make(replace(way, compress=None, overlap=False))
        self._steps = 0
        self._compute: list[float] = []
        self._link: list[float] = []
        self._last = 0.0
        self._loaded: tuple[Names, State] | None = None
        self._table: TextTable | None = None

    def watch(self) -> None:
        self._inner.watch()

    def finish(self) -> list[Tensor]:
        if self._table is not None:
            return self._inner.finish()
        began = time.perf_counter()
        marks = self._inner.finish()
        ended = time.perf_counter()
        if self._steps:
            self._compute.append(began - self._last)
            self._link.append(ended - began)
        self._last = ended
        self._steps += 1
        if self._steps > _STEPS:
            self._choose()
        return marks

    def _choose(self) -> None:
        """Collective. Go on in the way that suits best."""
        everyone = self._comm.allgather_objects((min(self._compute), min(self._link)))
        compute = max(one for one, _ in everyone)
        link = min(one for _, one in everyone)  # others also wait for who computes longer
        rank = self._way.rank
        shares = {name: share_sent(name, self._blocks, rank=rank) for name in _CANDIDATES}
        seconds = {name: max(compute, share * link) for name, share in shares.items()}
        chosen = choose(seconds)
        self._inner.close()
        self._inner = self._make(replace(self._way, compress=chosen))
        if self._loaded is not None:
            self._inner.load(*self._loaded)
        self._table = TextTable(
            f"--exchange auto --lossy took {_word(chosen)}: a step computes "
            f"{compute * 1e3:.0f} ms, its gradient takes the link {link * 1e3:.0f} ms",
            ("travels as", "bytes", "ms a step, by that"),
            tuple(
                (_word(name), f"{shares[name]:.0%}", f"{seconds[name] * 1e3:.0f}")
                for name in _CANDIDATES
            ),
        )

    def state(self, names: Names) -> State:
        return self._inner.state(names)

    def load(self, names: Names, state: State) -> None:
        self._inner.load(names, state)
        if self._table is None:  # what was lost is for the way to come
            self._loaded = names, state

    def report(self) -> Sequence[TextTable]:
        chosen = () if self._table is None else (self._table,)
        return (*chosen, *self._inner.report())

    def close(self) -> None:
        self._inner.close()


def choose(seconds: dict[str | None, float]) -> str | None:
    """Of ways in the order of what they lose, the first that is about as fast as the fastest."""
    limit = _TOLERANCE * min(seconds.values())
    return next(name for name, one in seconds.items() if one <= limit)


def _word(name: str | None) -> str:
    return "float32" if name is None else name
