"""What packing loses, and where it goes. On several ranks: tests/strategies/test_allreduce.py."""

import pytest
import torch
from torch import Tensor

from phalanx.comm.single import SingleCommunicator
from phalanx.exchange.compressions import COMPRESSIONS, compressed_sum, matrices_in
from phalanx.exchange.flat import FlatParameters
from phalanx.exchange.lossy import LossySum
from phalanx.exchange.low_rank import Matrix
from phalanx.exchange.stream import Stream

#: Those that keep what they lose.
WITH_FEEDBACK = [name for name in COMPRESSIONS if name != "bf16"]
LENGTH = 40_001  # more than a tile, and no multiple of anything


def make(name: str, tensor: Tensor) -> tuple[LossySum, Stream]:
    matrices = [Matrix(3, 200, 190)]
    one = compressed_sum(name, SingleCommunicator(), tensor, matrices=matrices, rank=2)
    return one, Stream([one], threaded=False)


@pytest.mark.parametrize("name", WITH_FEEDBACK)
def test_what_is_lost_is_what_has_not_arrived(name: str) -> None:
    exact = torch.randn(LENGTH, generator=torch.Generator().manual_seed(2)).double()
    tensor = exact.clone()
    compressed, stream = make(name, tensor)
    stream.finish()
    assert not torch.equal(tensor, exact)
    lost = compressed.lost()
    assert lost is not None
    torch.testing.assert_close(tensor + lost, exact, rtol=0, atol=1e-12)
    tensor.zero_()
    stream.finish()
    assert tensor.any(), "a step later it does arrive"


def test_bfloat16_is_one_rounding_and_keeps_nothing() -> None:
    exact = torch.randn(LENGTH, generator=torch.Generator().manual_seed(2))
    tensor = exact.clone()
    compressed, stream = make("bf16", tensor)
    stream.finish()
    assert torch.equal(tensor, exact.bfloat16().float())
    assert compressed.lost() is None


@pytest.mark.parametrize("name", WITH_FEEDBACK)
def test_a_sum_goes_on_from_what_it_keeps(name: str) -> None:
    steps = torch.randn(4, LENGTH, generator=torch.Generator().manual_seed(3))
    tensor = torch.zeros(LENGTH)
    before, stream = make(name, tensor)
    for step in steps[:2]:
        tensor.copy_(step)
        stream.finish()
    resumed = torch.zeros(LENGTH)
    after, resumed_stream = make(name, resumed)
    lost = before.lost()
    assert lost is not None
    after.take_lost(lost, of_all=False)
    for (_, mine), (_, theirs) in zip(after.factors(), before.factors(), strict=True):
        mine.copy_(theirs)
    for step in steps[2:]:
        tensor.copy_(step)
        stream.finish()
        resumed.copy_(step)
        resumed_stream.finish()
        assert torch.equal(tensor, resumed)


def test_low_rank_forgets_what_is_not_finite() -> None:
    tensor = torch.ones(LENGTH)
    _, stream = make("low-rank", tensor)
    tensor[1000] = float("inf")
    stream.finish()
    assert not tensor.isfinite().all()
    tensor.fill_(1.0)
    stream.finish()
    torch.testing.assert_close(tensor, torch.ones(LENGTH), rtol=1e-4, atol=1e-4)


def test_matrices_are_whole_rows_in_the_order_of_memory() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5), torch.nn.Flatten(), torch.nn.Linear(5, 7))
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    (block,) = FlatParameters(model).blocks
    convolution, _, linear, _ = block.layout.starts
    whole = list(matrices_in(block, slice(0, block.layout.length)))
    assert whole == [Matrix(convolution, 8, 75), Matrix(linear, 7, 5)]
    # Beginning in the second row, ending in the sixth.
    assert list(matrices_in(block, slice(76, 449))) == [Matrix(150 - 76, 3, 75)]
    assert list(matrices_in(block, slice(80, 160))) == []
