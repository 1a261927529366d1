"""Adding up rows of gradients: in shared memory slice by slice, or where they are few by MPI."""

from torch import Tensor

from phalanx.comm.base import Call, Communicator

#: Up to so many bytes MPI_Allreduce takes less time than two meetings around a sum do.
SMALL = 4096

#: Elements that are added up before going on to the next ones: they stay in a core's cache.
_TILE = 32768


class RowSum:
    """Adds all rows of a slice to its first row. Its tensors are made once, not every step."""

    def __init__(self, rows: Tensor, slice_: slice) -> None:
        # With two rows there is nothing to gain from tiles: each element is visited once anyway.
        tile = _TILE if len(rows) > 2 else max(1, slice_.stop - slice_.start)
        self._tiles = []
        for start in range(slice_.start, slice_.stop, tile):
            part = rows[:, start : min(start + tile, slice_.stop)]
            self._tiles.append((part[0], list(part[1:])))

    def add_up(self) -> None:
        """Make the first row the sum of all."""
        for total, others in self._tiles:
            for other in others:
                total.add_(other)


class SmallSum:
    """Two rows of this rank's own: what it brings in the second, everybody's sum in the first.

    A rank goes on when all have brought theirs, which saves a meeting beforehand.
    """

    def __init__(self, comm: Communicator, rows: Tensor) -> None:
        total, mine = rows[0], rows[1]
        #: Collective. Make the first row the sum of all ranks' second ones.
        self.add_up = comm.prepare(Call("allreduce", send=mine, receive=total, op="sum"))
