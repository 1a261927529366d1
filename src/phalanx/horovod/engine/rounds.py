"""One exchange of small messages between all ranks, begun without waiting for anybody.

A message that fits its slot travels in one collective operation. If any rank's does not, a second
one brings all of them in full; every rank knows from the first whether that is so.
"""

import pickle
from typing import Any, final

import torch

from phalanx.comm.base import Call, Communicator, Request

_SLOT = 512
_LENGTH = 8


@final
class Rounds:
    """The rounds of some ranks, one after the other. Its communicator is for nothing else."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._send = torch.zeros(_SLOT, dtype=torch.uint8)
        self._receive = torch.zeros(comm.size * _SLOT, dtype=torch.uint8)
        self._sent = memoryview(self._send.numpy())  # type: ignore[arg-type]
        self._received = memoryview(self._receive.numpy())  # type: ignore[arg-type]
        self._begin = comm.prepare_start(Call("allgather", self._send, self._receive))
        self._request: Request | None = None
        self._payload = b""
        self._lengths: list[int] | None = None
        self._long: torch.Tensor

    @property
    def entered(self) -> bool:
        """Whether this rank is in a round that is not over."""
        return self._request is not None

    def enter(self, message: Any) -> None:
        """Collective. Begin a round with this rank's message."""
        self._payload = pickle.dumps(message, protocol=5)
        length = len(self._payload)
        self._sent[:_LENGTH] = length.to_bytes(_LENGTH, "little")
        if length <= _SLOT - _LENGTH:
            self._sent[_LENGTH : _LENGTH + length] = self._payload
        self._lengths = None
        self._request = self._begin()

    def test(self) -> list[Any] | None:
        """All ranks' messages, once they are there, else None."""
        assert self._request is not None
        if not self._request.test():
            return None
        if self._lengths is None:
            starts = range(0, len(self._received), _SLOT)
            lengths = [int.from_bytes(self._received[i : i + _LENGTH], "little") for i in starts]
            if max(lengths) > _SLOT - _LENGTH:
                self._enter_long(lengths)
                return None
            pieces = [
                self._received[start + _LENGTH : start + _LENGTH + length]
                for start, length in zip(starts, lengths, strict=True)
            ]
        else:
            whole = memoryview(self._long.numpy())  # type: ignore[arg-type]
            ends = [sum(self._lengths[: rank + 1]) for rank in range(len(self._lengths))]
            pieces = [
                whole[end - length : end] for end, length in zip(ends, self._lengths, strict=True)
            ]
        self._request = None
        return [pickle.loads(piece) for piece in pieces]

    def _enter_long(self, lengths: list[int]) -> None:
        self._lengths = lengths
        send = torch.frombuffer(bytearray(self._payload), dtype=torch.uint8)
        self._long = torch.zeros(sum(lengths), dtype=torch.uint8)
        self._request = self._comm.iallgather(send, self._long, counts=lengths)
