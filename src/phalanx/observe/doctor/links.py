"""How fast messages go between two ranks: latency of small ones, bandwidth of large ones."""

import time
from typing import Any

import torch

from phalanx.comm.base import Communicator

_ROUNDS, _WARM_UP = 200, 20
#: Bytes: from here on ever larger ones, until one takes long enough to be measured.
_SMALLEST, _LARGEST, _FACTOR = 1 << 16, 1 << 24, 4
_LONG_ENOUGH = 0.05
_REPEATS = 3


def measure_link(comm: Communicator, other: int) -> dict[str, Any]:
    """Collective. Seconds and bytes a second between rank 0 and another one; the others wait."""
    measured: dict[str, Any] = {"rank": other}
    if comm.rank in (0, other):
        partner = other if comm.rank == 0 else 0
        small = torch.zeros(8, dtype=torch.uint8)
        _exchange(comm, partner, small, rounds=_WARM_UP)
        measured["latency"] = _exchange(comm, partner, small, rounds=_ROUNDS)
        measured["bandwidth"] = _bandwidth(comm, partner)
    comm.barrier()
    return measured


def _bandwidth(comm: Communicator, partner: int) -> float:
    size = _SMALLEST
    while True:
        buffer = torch.zeros(size, dtype=torch.uint8)
        seconds = min(_exchange(comm, partner, buffer, rounds=1) for _ in range(_REPEATS))
        # Both must stop at the same size: the first one's clock counts.
        verdict = torch.tensor([seconds])
        if comm.rank == 0:
            comm.send(verdict, partner)
        else:
            comm.receive(verdict, partner)
        if verdict.item() > _LONG_ENOUGH or size >= _LARGEST:
            return size / seconds
        size *= _FACTOR


def _exchange(comm: Communicator, partner: int, buffer: torch.Tensor, *, rounds: int) -> float:
    """The seconds of one way, as a mean over so many ways there and back."""
    start = time.perf_counter()
    for _ in range(rounds):
        if comm.rank == 0:
            comm.send(buffer, partner)
            comm.receive(buffer, partner)
        else:
            comm.receive(buffer, partner)
            comm.send(buffer, partner)
    return (time.perf_counter() - start) / (2 * rounds)
