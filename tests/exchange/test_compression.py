"""What rounding to 16 bits loses. On several ranks: tests/strategies/test_allreduce.py."""

import pytest
import torch

from phalanx.comm.single import SingleCommunicator
from phalanx.exchange.compression import CompressedSum, Compression
from phalanx.exchange.sums import Sums


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_residuals_are_what_has_not_arrived(compression: Compression) -> None:
    exact = torch.randn(1001, generator=torch.Generator().manual_seed(2)).double()
    tensor = exact.clone()
    compressed = CompressedSum(SingleCommunicator(), tensor, compression)
    sums = Sums([compressed])
    sums.finish()
    assert not torch.equal(tensor, exact)
    lost = sum(compressed.residuals_in_place(0))
    torch.testing.assert_close(tensor + lost, exact, rtol=0, atol=1e-15)
    tensor.zero_()
    sums.finish()
    assert tensor.any(), "a step later it does arrive"


@pytest.mark.parametrize("compression", ["fp16", "bf16"])
def test_a_sum_goes_on_from_residuals(compression: Compression) -> None:
    steps = torch.randn(4, 99, generator=torch.Generator().manual_seed(3))

    def run(
        start: int, residuals: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        tensor = torch.zeros(99)
        compressed = CompressedSum(SingleCommunicator(), tensor, compression)
        if residuals is not None:
            compressed.take_residuals(*residuals, rank=0)
        for step in steps[start : start + 2]:
            tensor.copy_(step)
            Sums([compressed]).finish()
        return tensor, compressed.residuals_in_place(0)

    _, kept = run(0)
    resumed, _ = run(2, kept)
    tensor = torch.zeros(99)
    whole = Sums([CompressedSum(SingleCommunicator(), tensor, compression)])
    for step in steps:
        tensor.copy_(step)
        whole.finish()
    assert torch.equal(tensor, resumed)
