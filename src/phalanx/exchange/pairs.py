"""Sums over two ranks: each sends the other all that it has, and adds what comes.

Over two ranks a sum that is shared out, half of it to each, and then gathered takes the link as
many bytes each way as this does, but two messages behind each other instead of one, and what is
under way moves only when somebody looks after it. Both ranks add the same two numbers, so that both
have the same bits.
"""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from phalanx.comm.base import Call, Communicator, Request
from phalanx.exchange.formats import Format
from phalanx.exchange.lossy import LossySum
from phalanx.exchange.rows import slice_of_rank
from phalanx.exchange.sums import StartedSum, Sum
from phalanx.exchange.tiles import cut_in_tiles, pack, room_of, tile_of


def started_sum(comm: Communicator, tensor: Tensor) -> Sum:
    """A sum that goes on by itself once it has started, as suits so many ranks."""
    return PairSum(comm, tensor) if comm.size == 2 else StartedSum(comm, tensor)


def _swap(comm: Communicator, outgoing: Tensor, incoming: Tensor) -> Callable[[], Request]:
    """Collective, between two. What starts to send one flat tensor and to receive the other."""
    counts = [0, 0]
    counts[1 - comm.rank] = outgoing.numel()
    return comm.prepare_start(
        Call("all_to_all", outgoing, incoming, send_counts=counts, receive_counts=counts)
    )


@final
class PairSum(Sum):
    """A sum as it is: one message each way."""

    needs_progress = True

    def __init__(self, comm: Communicator, tensor: Tensor) -> None:
        self.tensor = tensor
        self._incoming = torch.zeros_like(tensor)
        self._begin = _swap(comm, tensor, self._incoming)
        self._request: Request

    def start(self) -> None:
        self._request = self._begin()

    def test(self) -> bool:
        return self._request.test()

    def turn(self) -> None:
        pass

    def finish(self) -> None:
        self._request.wait()
        self.tensor.add_(self._incoming)


@final
class CompressedPairSum(LossySum):
    """A sum of numbers in a format: each is rounded once, where it comes from."""

    needs_progress = True

    def __init__(self, comm: Communicator, tensor: Tensor, format_: Format) -> None:
        self.tensor = tensor
        self._format = format_
        #: Where this rank goes on with what both have lost together.
        self._part = slice_of_rank(tensor.numel(), comm.rank, of=comm.size)
        self._lost = torch.zeros_like(tensor) if format_.feedback else None
        whole = slice(0, tensor.numel())
        tile = tile_of(tensor)
        outgoing = tensor.new_zeros(room_of(format_, whole, tile=tile), dtype=torch.uint8)
        incoming = torch.zeros_like(outgoing)
        self._mine = cut_in_tiles(format_, tensor, whole, place=outgoing, lost=self._lost)
        self._others = cut_in_tiles(format_, tensor, whole, place=incoming)
        self._scratch = tensor.new_empty(min(tile, tensor.numel()))
        self._begin = _swap(comm, outgoing, incoming)
        self._request: Request

    def start(self) -> None:
        pack(self._format, self._mine)
        self._request = self._begin()

    def test(self) -> bool:
        return self._request.test()

    def turn(self) -> None:
        pass

    def finish(self) -> None:
        self._request.wait()
        for mine, other in zip(self._mine, self._others, strict=True):
            scratch = self._scratch[: mine.values.numel()]
            self._format.unpack(mine.packed, mine.values)
            self._format.unpack(other.packed, scratch)
            mine.values.add_(scratch)

    def lost(self) -> Tensor | None:
        return None if self._lost is None else self._lost.clone()

    def take_lost(self, lost: Tensor, *, of_all: bool) -> None:
        if self._lost is None:
            return
        part = self._part if of_all else slice(None)
        self._lost.zero_()[part].copy_(lost[part])
