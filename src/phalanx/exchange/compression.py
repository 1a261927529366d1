"""Sums of numbers in a format that takes fewer bytes.

Every rank owns a part of the tensor. Each sends the others their parts, packed, adds up its own
part in the gradient's precision, and sends the sum to all, packed: as many messages as a ring
needs, and just two roundings, however many ranks there are. Where a format wants feedback, both
remember what they rounded away and add it the next time, so that over many steps what was exchanged
is never further from the exact sum than the roundings of a single step.

All work is done in tiles that stay in a core's cache, in the gradient's own memory. A gradient that
is infinite or not a number arrives as such, as it does without compression.
"""

from typing import final

import torch
from torch import Tensor

from phalanx.comm.base import Call, Communicator, Request
from phalanx.exchange.formats import Format
from phalanx.exchange.lossy import LossySum
from phalanx.exchange.rows import slice_of_rank
from phalanx.exchange.tiles import Tile, cut_in_tiles, pack, room_of, tile_of


@final
class CompressedSum(LossySum):
    """A sum in a format: MPI_Ialltoallv, an addition, MPI_Iallgatherv."""

    needs_progress = True
    turns = 1

    def __init__(self, comm: Communicator, tensor: Tensor, format_: Format) -> None:
        self.tensor = tensor
        self._format, self._rank = format_, comm.rank
        self._parts = [
            slice_of_rank(tensor.numel(), rank, of=comm.size) for rank in range(comm.size)
        ]
        #: Of the numbers that this rank sends to others, and of the sums of its own part.
        self._lost = torch.zeros_like(tensor) if format_.feedback else None
        tile = tile_of(tensor)
        rooms = [room_of(format_, part, tile=tile) for part in self._parts]
        outgoing = tensor.new_zeros(sum(rooms), dtype=torch.uint8)
        places = torch.split(outgoing, rooms)
        self._others = [
            tile
            for rank, place in enumerate(places)
            if rank != comm.rank
            for tile in self._tiles(self._parts[rank], place)
        ]
        self._own = self._tiles(self._parts[comm.rank], places[comm.rank])
        incoming = tensor.new_zeros(comm.size * rooms[comm.rank], dtype=torch.uint8)
        self._incoming = (
            [
                self._tiles(self._parts[comm.rank], place)
                for rank, place in enumerate(incoming.chunk(comm.size))
                if rank != comm.rank
            ]
            if rooms[comm.rank]
            else []
        )
        own = self._parts[comm.rank]
        self._scratch = tensor.new_empty(min(tile, own.stop - own.start))
        to_me = [rooms[comm.rank]] * comm.size
        self._scatter = comm.prepare_start(
            Call("all_to_all", outgoing, incoming, send_counts=rooms, receive_counts=to_me)
        )
        self._gather = comm.prepare_start(
            Call("allgather", places[comm.rank], outgoing, receive_counts=rooms)
        )
        self._request: Request

    def _tiles(self, part: slice, place: Tensor) -> list[Tile]:
        return cut_in_tiles(self._format, self.tensor, part, place=place, lost=self._lost)

    def start(self) -> None:
        pack(self._format, self._others)
        self._request = self._scatter()

    def test(self) -> bool:
        return self._request.test()

    def turn(self) -> None:
        self._request.wait()
        for tiles in self._incoming:
            for tile in tiles:
                scratch = self._scratch[: tile.values.numel()]
                self._format.unpack(tile.packed, scratch)
                tile.values.add_(scratch)
        pack(self._format, self._own)
        self._request = self._gather()

    def finish(self) -> None:
        self._request.wait()
        for tile in (*self._others, *self._own):
            self._format.unpack(tile.packed, tile.values)

    def lost(self) -> Tensor | None:
        return None if self._lost is None else self._lost.clone()

    def take_lost(self, lost: Tensor, *, of_all: bool) -> None:
        if self._lost is None:
            return
        part = self._parts[self._rank] if of_all else slice(None)
        self._lost.zero_()[part].copy_(lost[part])
