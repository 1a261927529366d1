"""Adding up rows of gradients: in shared memory slice by slice, or where they are few by MPI."""

import torch
from torch import Tensor

from phalanx.comm.base import Call, Communicator
from phalanx.data.batches import cut

#: Up to so many bytes MPI_Allreduce takes less time than two meetings around a sum do.
SMALL = 4096

#: Elements that are added up before going on to the next ones: they stay in a core's cache.
_TILE = 32768

#: Elements of a cache line, or more: ranks that write to the same one slow each other down.
_LINE = 64


def slice_of_rank(length: int, rank: int, *, of: int) -> slice:
    """This rank's share of so many elements, which ends between cache lines."""
    lines = cut(-(-length // _LINE), of)[rank]
    return slice(min(lines.start * _LINE, length), min(lines.stop * _LINE, length))


class RowSum:
    """Adds all rows of a slice to its first row. Its tensors are made once, not every step."""

    def __init__(self, rows: Tensor, slice_: slice) -> None:
        # With two rows there is nothing to gain from tiles: each element is visited once anyway;
        # nor on a GPU, where each tile is one more kernel to start.
        tiled = len(rows) > 2 and rows.is_cpu
        tile = _TILE if tiled else max(1, slice_.stop - slice_.start)
        self._tiles = _tiles(rows, slice_, tile)

    def add_up(self) -> None:
        """Make the first row the sum of all."""
        for total, others in self._tiles:
            for other in others:
                total.add_(other)


class EveryRowSum:
    """Makes every row of a slice the sum of all rows, divided by a number."""

    def __init__(self, rows: Tensor, slice_: slice, *, divisor: float) -> None:
        self._tiles = _tiles(rows, slice_, _TILE)
        self._divisor = divisor

    def add_up(self) -> None:
        """Do it."""
        for total, others in self._tiles:
            for other in others:
                total.add_(other)
            if self._divisor != 1.0:
                total.div_(self._divisor)
            for other in others:
                other.copy_(total)


def _tiles(rows: Tensor, slice_: slice, tile: int) -> list[tuple[Tensor, list[Tensor]]]:
    """A slice of all rows in pieces: the first row's, and the other ones'."""
    starts = range(slice_.start, slice_.stop, tile)
    parts = [rows[:, start : min(start + tile, slice_.stop)] for start in starts]
    return [(part[0], list(part[1:])) for part in parts]


class SmallSum:
    """Two rows of this rank's own: what it brings in the second, everybody's sum in the first.

    A rank goes on when all have brought theirs, which saves a meeting beforehand.
    """

    def __init__(self, comm: Communicator, rows: Tensor) -> None:
        total, mine = rows[0], rows[1]
        #: Collective. Make the first row the sum of all ranks' second ones.
        self.add_up = comm.prepare(Call("allreduce", send=mine, receive=total, op="sum"))


def add_up_in_order(peers: Communicator, rows: Tensor, *, filled: int) -> None:
    """Collective. Add up row by row from the first host to the last, as a single host would."""
    total = torch.zeros_like(rows[0]).neg_()  # added to -0, even a zero keeps its sign
    if peers.rank > 0:
        peers.receive(total, peers.rank - 1)
    for row in rows[:filled]:
        total.add_(row)
    if peers.rank < peers.size - 1:
        peers.send(total, peers.rank + 1)
    peers.broadcast(total, peers.size - 1)
    rows[0].copy_(total)
