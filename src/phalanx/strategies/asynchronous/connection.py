"""A server's connection to one worker, whose messages are never waited for one by one.

A worker sends a short *request*: which batch it wants a part of, and whether the gradient of its
last part follows. The answer is a part's number and the weights to compute it from, or that none is
left. There is one message at a time, there or back, so that one row of memory does for gradients
and weights.
"""

from typing import NamedTuple, final

import torch
from torch import Tensor

from phalanx.comm.base import Communicator, Request
from phalanx.exchange.flat import FlatParameters
from phalanx.strategies.asynchronous.assignments import NONE_LEFT
from phalanx.strategies.building_blocks.parameter_server import gradients_for

#: The tag of request and answers. Those of gradients and weights are the blocks' numbers.
REQUEST = 100


class WorkRequest(NamedTuple):
    """What a worker tells the server."""

    batch: int = 0
    #: How many parts of this batch have samples.
    parts: int = 0
    #: Whether a gradient follows, of a part of the same batch.
    has_gradient: bool = False
    #: The version of the weights that it was computed from.
    version: int = 0
    #: Whether the worker asks for nothing, and will not until all ranks have met.
    syncs: bool = False

    def pack(self) -> Tensor:
        """As it is sent."""
        return torch.tensor([int(field) for field in self])

    @staticmethod
    def unpack(sent: Tensor) -> "WorkRequest":
        """As it was before it was sent."""
        batch, parts, has_gradient, version, syncs = sent.tolist()
        return WorkRequest(batch, parts, bool(has_gradient), version, bool(syncs))


@final
class Connection:
    """The server's end of a line. Its messages go through the worker's own row of gradients."""

    def __init__(self, comm: Communicator, flat: FlatParameters, *, rank: int) -> None:
        self.rank = rank
        #: The last request that came.
        self.request = WorkRequest()
        self._comm = comm
        self._flat, self._blocks = flat, flat.blocks
        self._packed = self.request.pack()
        self._answer = torch.zeros(2, dtype=torch.int64)
        self._listening: Request | None = None
        self._gradient: list[Request] = []
        self._leaving: list[Request] = []

    @property
    def awaited(self) -> Request | None:
        """What is to come next from the worker, if anything is."""
        return self._gradient[-1] if self._gradient else self._listening

    def listen(self) -> None:
        """Await a request."""
        self._listening = self._comm.ireceive(self._packed, self.rank, tag=REQUEST)

    def take_in(self) -> bool:
        """What was awaited has come: whether it is complete, or a gradient is still to follow."""
        if self._listening is None:
            for request in self._gradient:
                request.wait()
            self._gradient = []
            return True
        self._listening.wait()
        self._listening = None
        self.request = WorkRequest.unpack(self._packed)
        self._settle()
        if self.request.has_gradient:
            self._gradient = [
                self._comm.ireceive(one.buffer, self.rank, tag=one.tag)
                for one in gradients_for(self.rank, self._flat, self.rank)
            ]
        return not self._gradient

    def answer(self, part: int, *, version: int) -> None:
        """Send a part's number and the weights, or only that there is none; then listen again."""
        self._answer.copy_(torch.tensor([part, version]))
        self._leaving = [self._comm.isend(self._answer, self.rank, tag=REQUEST)]
        if part != NONE_LEFT:
            for tag, block in enumerate(self._blocks):
                # Copied, because over a slow network the weights must not wait for being updated.
                copy = block.rows[self.rank, : block.layout.length].copy_(block.values)
                self._leaving.append(self._comm.isend(copy, self.rank, tag=tag))
        self.listen()

    def _settle(self) -> None:
        """Complete what was sent: the worker has it, or it would have no more to say."""
        for request in self._leaving:
            request.wait()
        self._leaving = []
