"""Meetings that are steps of an outer optimizer, as in SlowMo and DiLoCo.

What ranks exchange is how far each has come since the weights that all had in common; the mean of
these ways is a gradient for an optimizer of its own. Ways bear compression better than weights do,
and what that loses is added to the next one.

All weights meet at once, and everybody waits; or in pieces, one after the other, each in the
background of the training, as in Streaming DiLoCo. A piece that was sent is taken when the next one
is: at a step that is the same on all ranks, whenever it arrives. So at most one is in flight.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, final

import torch
from torch import Tensor

from phalanx.comm import algorithms
from phalanx.comm.algorithm_names import AUTO
from phalanx.comm.base import Communicator
from phalanx.comm.progress import takes_threads
from phalanx.exchange.compressions import DEFAULT_RANK, compressed_sum, matrices_in
from phalanx.exchange.flat import FlatBlock, FlatParameters
from phalanx.exchange.lossy import COMPRESSIBLE, LossySum
from phalanx.exchange.pairs import started_sum
from phalanx.exchange.sums import BlockingSum, Sum
from phalanx.state import Share, State
from phalanx.strategies.building_blocks.error_feedback import ErrorFeedback
from phalanx.strategies.local.meetings import Meetings, Names
from phalanx.strategies.local.pieces import (
    OuterOptimizer,
    Piece,
    Place,
    Stretch,
    cut_in_pieces,
)

_COMMON, _CHANGES, _WAY, _LEFT = (
    f"strategy/{kind}/" for kind in ("common", "changes", "way", "left")
)
#: In a state's values: which piece of how many is in flight.
_IN_FLIGHT = "piece in flight"


class Options(Protocol):
    """What a user chooses about them."""

    @property
    def every(self) -> int: ...
    @property
    def pieces(self) -> int: ...
    @property
    def compress(self) -> str | None: ...
    @property
    def compress_rank(self) -> int | None: ...


@final
class OuterSteps(Meetings):
    """The meetings of ranks that lead a replica; a replica may be several ranks that have the same
    weights at any time, of which the first one leads, and gives what comes of it to the others."""

    def __init__(
        self,
        leaders: Communicator,
        replica: Communicator,
        flat: FlatParameters,
        options: Options,
        *,
        outer: OuterOptimizer,
        place: tuple[int, int],
        shares: str,
    ) -> None:
        """Collective. `place`: this rank's number among those that a state is put together by, of
        how many; `shares`: what such a state is known by."""
        self._replica, self._blocks, self._outer = replica, flat.blocks, outer
        self._values = [block.values for block in flat.blocks]
        self._places = cut_in_pieces(flat.blocks, options.pieces)
        self._every = options.every
        count = len(self._places)
        #: After which step of a round each piece is sent: all of them in every round.
        self._due = {options.every * (number + 1) // count: number for number in range(count)}
        self._in_flight: int | None = None
        self._leads = replica.rank == 0
        self._common = self._like_values(clone=True) if self._leads else []
        self._changes = self._like_values() if self._leads and outer.momentum > 0 else []
        # Where everybody waits, the weights themselves make room for the ways.
        self._ways = self._like_values() if self._leads and count > 1 else self._values
        self._lossy: list[LossySum] = []
        self._comm = self._own_communicator(leaders, options)
        self._own_comm = self._comm is not leaders
        self._pieces = [self._piece(places, options) for places in self._places if self._leads]
        self._feedback = ErrorFeedback(
            place, flat.blocks, self._lossy, inside=self._ways, shares=shares
        )

    def _like_values(self, *, clone: bool = False) -> list[Tensor]:
        return [one.clone() if clone else torch.zeros_like(one) for one in self._values]

    def _own_communicator(self, leaders: Communicator, options: Options) -> Communicator:
        """Collective. One apart from what others do meanwhile, if anything is done meanwhile."""
        if options.pieces == 1 and options.compress is None:
            return leaders
        chosen = algorithms.choose(leaders, AUTO, started=True)
        return leaders.split(0, leaders.rank) if chosen is leaders else chosen

    def _piece(self, places: Sequence[Place], options: Options) -> Piece:
        stretches = [self._stretch(place) for place in places]
        return Piece(
            stretches,
            [
                self._sum(self._blocks[number], where, stretch.way, options)
                for (number, where), stretch in zip(places, stretches, strict=True)
            ],
            ranks=self._comm.size,
            outer=self._outer,
            threaded=options.pieces > 1 and self._comm.size > 1 and takes_threads(self._comm),
        )

    def _stretch(self, place: Place) -> Stretch:
        number, where = place
        return Stretch(
            self._values[number][where],
            self._common[number][where],
            self._changes[number][where] if self._changes else None,
            self._ways[number][where],
        )

    def _sum(self, block: FlatBlock, where: slice, way: Tensor, options: Options) -> Sum:
        # Alone, a rank sends nothing, and so needs to round nothing.
        if options.compress is None or self._comm.size == 1 or way.dtype not in COMPRESSIBLE:
            return (started_sum if options.pieces > 1 else BlockingSum)(self._comm, way)
        matrices, rank = list(matrices_in(block, where)), options.compress_rank or DEFAULT_RANK
        one = compressed_sum(options.compress, self._comm, way, matrices=matrices, rank=rank)
        self._lossy.append(one)
        return one

    def part(self) -> None:
        for values, common in zip(self._values, self._common, strict=False):
            common.copy_(values)

    def after(self, steps: int) -> bool:
        if steps not in self._due:
            return False
        if len(self._places) == 1:
            self.meet()
            return True
        self._land()
        self._in_flight = self._due[steps]
        if self._leads:
            self._pieces[self._in_flight].start()
        return False

    def meet(self) -> None:
        self._land()
        for number in range(len(self._places)):
            if self._leads:
                self._pieces[number].start()
            self._take(number, trained=False)

    def _land(self) -> None:
        """Collective. Take what is in flight."""
        if self._in_flight is not None:
            self._take(self._in_flight, trained=True)
            self._in_flight = None

    def _take(self, number: int, *, trained: bool) -> None:
        if self._leads:
            self._pieces[number].take(trained=trained)
        self._spread(self._places[number])

    def _spread(self, places: Sequence[Place]) -> None:
        """Collective. Give weights of this replica's leader to its other ranks."""
        if self._replica.size > 1:
            for block, where in places:
                self._replica.broadcast(self._values[block][where])

    def state(self, names: Names) -> State:
        """What is in flight arrives first, but is not taken: a training must not depend on whether
        somebody has asked for its state."""
        state = State()
        for kind, kept in ((_COMMON, self._common), (_CHANGES, self._changes)):
            for name, one in self._by_name(names, kept):
                state.tensors[kind + name] = one.clone()
        if self._in_flight is not None:
            state.values[_IN_FLIGHT] = [self._in_flight, len(self._places)]
            if self._leads:
                state.add(self._flight(self._in_flight, names))
        return state.add(self._feedback.state(names))

    def _flight(self, number: int, names: Names) -> State:
        """What is known of a piece in flight; outside of the piece, nothing."""
        piece = self._pieces[number]
        piece.arrive()
        ways, left = self._like_values(), self._like_values()
        for (block, where), stretch in zip(self._places[number], piece.stretches, strict=True):
            assert stretch.left is not None
            ways[block][where], left[block][where] = stretch.way, stretch.left
        state = State()
        for name, one in self._by_name(names, ways):
            state.tensors[_WAY + name] = one
        for name, one in self._by_name(names, left):
            state.tensors[_LEFT + name] = Share(one, "mean")
        return state

    def load(self, names: Names, state: State, *, own: State | None) -> None:
        """Where pieces are others than those of the state, or what was this rank's own is not
        known, what was in flight is taken at once."""
        self._in_flight = None
        self.part()
        self._fill(names, self._common, state, _COMMON)
        for one in self._changes:
            one.zero_()
        self._fill(names, self._changes, state, _CHANGES)
        self._feedback.load(names, state)
        if _IN_FLIGHT in state.values:
            self._load_flight(names, own or state, stays=own is not None)

    def _load_flight(self, names: Names, state: State, *, stays: bool) -> None:
        number, count = state.values[_IN_FLIGHT]
        stays = stays and count == len(self._places)
        places = cut_in_pieces(self._blocks, count)[number]
        if self._leads:
            ways, left = self._like_values(), self._like_values()
            self._fill(names, ways, state, _WAY)
            self._fill(names, left, state, _LEFT)
            stretches = self._pieces[number].stretches if stays else map(self._stretch, places)
            for (block, where), stretch in zip(places, stretches, strict=True):
                stretch.left = left[block][where].clone()
                if stays:
                    stretch.way.copy_(ways[block][where])
                else:
                    stretch.way = ways[block][where]
                    stretch.take(self._outer, trained=True)
        if stays:
            self._in_flight = number
        else:
            self._spread(places)

    def _by_name(self, names: Names, flats: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
        for block, flat in zip(self._blocks, flats, strict=False):
            for parameter, one in zip(block.layout.parameters, block.shaped(flat), strict=True):
                yield names[parameter], one

    def _fill(self, names: Names, flats: Sequence[Tensor], state: State, kind: str) -> None:
        for name, one in self._by_name(names, flats):
            if kind + name in state.tensors:
                one.copy_(state.tensor(kind + name))

    def close(self) -> None:
        for piece in self._pieces:
            piece.arrive()
            piece.close()
        if self._own_comm:
            self._comm.free()
