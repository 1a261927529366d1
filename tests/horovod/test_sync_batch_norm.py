"""Batch normalisation over all ranks equals that of one process on the joined batch."""

import pytest
import torch
from torch import nn

import phalanx.horovod.torch as hvd
from phalanx.errors import UsageError

pytestmark = [pytest.mark.usefixtures("horovod"), pytest.mark.ranks(1, 2, 3)]


@pytest.mark.parametrize("shape", [(4,), (4, 3, 2)], ids=str)
@pytest.mark.parametrize("momentum", [0.1, None])
def test_forward_and_backward(shape: tuple[int, ...], momentum: float | None) -> None:
    generator = torch.Generator().manual_seed(1)
    sizes = [2 + rank for rank in range(hvd.size())]
    whole = torch.randn(sum(sizes), *shape, generator=generator) * 3 + 2
    upstream = torch.randn(whole.shape, generator=generator)
    plain = nn.BatchNorm1d(4, momentum=momentum) if len(shape) == 1 else None
    expected = plain or nn.BatchNorm2d(4, momentum=momentum)
    synced = hvd.SyncBatchNorm(4, momentum=momentum)
    start = sum(sizes[: hvd.rank()])
    mine = slice(start, start + sizes[hvd.rank()])
    for _ in range(2):
        joined = whole.clone().requires_grad_()
        part = whole[mine].clone().requires_grad_()
        expected(joined).backward(upstream)
        output = synced(part)
        torch.testing.assert_close(output, expected(joined.detach())[mine], rtol=1e-5, atol=1e-5)
        expected.num_batches_tracked.sub_(1) if expected.num_batches_tracked is not None else None
        output.backward(upstream[mine])
        assert joined.grad is not None
        torch.testing.assert_close(part.grad, joined.grad[mine], rtol=1e-4, atol=1e-5)
        for own, other in zip(synced.parameters(), expected.parameters(), strict=True):
            assert own.grad is not None
            total = hvd.allreduce(own.grad, op=hvd.Sum)
            torch.testing.assert_close(total, other.grad, rtol=1e-4, atol=1e-5)
            own.grad = other.grad = None


def test_running_statistics_and_evaluation() -> None:
    sizes = [2 + rank for rank in range(hvd.size())]
    whole = torch.randn(sum(sizes), 4, 5, generator=torch.Generator().manual_seed(2))
    expected, synced = nn.BatchNorm1d(4), hvd.SyncBatchNorm(4)
    part = whole[sum(sizes[: hvd.rank()]) :][: sizes[hvd.rank()]]
    for _ in range(3):
        expected(whole)
        synced(part)
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(synced.state_dict()[name], value, rtol=1e-5, atol=1e-5)
    expected.eval()
    synced.eval()
    torch.testing.assert_close(synced(part), expected(part), rtol=1e-5, atol=1e-5)
    with pytest.raises(UsageError, match=r"not \[2, 3\]"):
        synced(torch.ones(2, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("weights", ["wide", "narrow"])
def test_sixteen_bits(dtype: torch.dtype, weights: str) -> None:
    """ShardedBuffers are not rounded to them, and the output has the input's dtype."""
    generator = torch.Generator().manual_seed(3)
    whole = (torch.randn(4 * hvd.size(), 4, 3, 2, generator=generator) + 10).to(dtype)
    upstream = torch.randn(whole.shape, generator=generator).to(dtype)
    expected, synced = nn.BatchNorm2d(4), hvd.SyncBatchNorm(4)
    synced.train(hvd.size() > 1)  # on one rank it is torch's own, which rounds
    expected.train(hvd.size() > 1)
    if weights == "narrow":
        synced.to(dtype)
    mine = slice(4 * hvd.rank(), 4 * hvd.rank() + 4)
    joined, part = whole.float().requires_grad_(), whole[mine].clone().requires_grad_()
    wanted, output = expected(joined), synced(part)
    assert output.dtype is dtype
    torch.testing.assert_close(output, wanted[mine].to(dtype))
    if weights == "wide":
        torch.testing.assert_close(synced.running_mean, expected.running_mean)
        torch.testing.assert_close(synced.running_var, expected.running_var)
    wanted.backward(upstream.float())
    output.backward(upstream[mine])
    assert part.grad is not None
    assert joined.grad is not None
    assert synced.weight.grad is not None
    torch.testing.assert_close(part.grad, joined.grad[mine].to(dtype))
    assert synced.weight.grad.dtype is synced.weight.dtype
    total = hvd.allreduce(synced.weight.grad.float(), op=hvd.Sum)
    torch.testing.assert_close(total, expected.weight.grad, rtol=1e-2, atol=1e-1)


def test_autocast() -> None:
    model = nn.Sequential(nn.Conv2d(3, 3, 1), hvd.SyncBatchNorm(3))
    with torch.autocast("cpu", torch.bfloat16):
        output = model(torch.randn(4, 3, 2, 2))
    assert output.dtype is torch.bfloat16
    output.float().sum().backward()
    assert next(model.parameters()).grad is not None
