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
