"""Sums over two ranks, in one message each way."""

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.exchange.compressions import compressed_sum
from phalanx.exchange.pairs import PairSum, started_sum
from phalanx.exchange.stream import Stream
from phalanx.exchange.sums import StartedSum

LENGTH = 70_001  # some tiles, and no multiple of anything


@pytest.mark.ranks(2)
def test_both_have_the_sum(comm: Communicator) -> None:
    parts = torch.randn(2, LENGTH, generator=torch.Generator().manual_seed(1))
    buffer, flags = torch.zeros(LENGTH), torch.zeros(3)
    stream = Stream([started_sum(comm, buffer), started_sum(comm, flags)], threaded=True)
    for step in range(3):
        buffer.copy_(parts[comm.rank] * (step + 1))
        flags.copy_(torch.tensor([1.0, 0.0, float(comm.rank)]))
        stream.start_next()
        stream.finish()
        assert torch.equal(buffer, parts[0] * (step + 1) + parts[1] * (step + 1))
        assert flags.tolist() == [2.0, 0.0, 1.0]
    stream.close()


@pytest.mark.ranks(2)
def test_half_the_bytes_are_rounded_once(comm: Communicator) -> None:
    parts = torch.randn(2, LENGTH, generator=torch.Generator().manual_seed(2))
    buffer = parts[comm.rank].clone()
    Stream([compressed_sum("bf16", comm, buffer, matrices=(), rank=2)], threaded=False).finish()
    assert torch.equal(buffer, parts[0].bfloat16().float() + parts[1].bfloat16().float())


@pytest.mark.ranks(2, 3)
def test_only_two_are_a_pair(comm: Communicator) -> None:
    kind = PairSum if comm.size == 2 else StartedSum
    assert type(started_sum(comm, torch.zeros(3))) is kind
