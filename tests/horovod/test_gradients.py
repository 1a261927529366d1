"""Gradients through operations, as Horovod gives them."""

import pytest
import torch

import phalanx.horovod.torch as hvd

pytestmark = [pytest.mark.usefixtures("horovod"), pytest.mark.ranks(1, 2, 3)]


def test_allreduce() -> None:
    size = hvd.size()
    for op, expected in ((hvd.Sum, size), (hvd.Average, 1)):
        tensor = torch.ones(2, requires_grad=True)
        hvd.allreduce(tensor, op=op, postscale_factor=2.0).sum().backward()  # type: ignore[no-untyped-call]
        assert tensor.grad is not None
        assert tensor.grad.tolist() == [2 * expected] * 2


def test_groups() -> None:
    tensors = [torch.ones(1, requires_grad=True), torch.ones(2, requires_grad=True)]
    first, _ = hvd.grouped_allreduce(tensors, op=hvd.Sum)
    first.sum().backward()  # type: ignore[no-untyped-call]
    gradients = [tensor.grad for tensor in tensors]
    assert [one.tolist() for one in gradients if one is not None] == [[hvd.size()], [0, 0]]
    gathered = hvd.grouped_allgather(tensors)
    torch.cat(gathered).sum().backward()  # type: ignore[no-untyped-call]
    assert [one.tolist() for one in gradients if one is not None] == [[hvd.size() + 1], [1, 1]]


def test_allgather() -> None:
    rows = hvd.rank() + 1
    tensor = torch.ones(rows, 2, requires_grad=True)
    gathered = hvd.allgather(tensor)
    weights = torch.arange(1.0, len(gathered) + 1)[:, None] * (hvd.rank() + 1)
    (gathered * weights).sum().backward()  # type: ignore[no-untyped-call]
    start = sum(range(1, rows))
    mean = sum(range(1, hvd.size() + 1)) / hvd.size()
    expected = torch.arange(start + 1.0, start + rows + 1)[:, None].expand(-1, 2) * mean
    assert tensor.grad is not None
    torch.testing.assert_close(tensor.grad, expected)


def test_broadcast() -> None:
    tensor = torch.ones(2, requires_grad=True)
    hvd.broadcast(tensor, hvd.size() - 1).mul(hvd.rank() + 1).sum().backward()  # type: ignore[no-untyped-call]
    mean = sum(range(1, hvd.size() + 1)) / hvd.size()
    is_root = hvd.rank() == hvd.size() - 1
    assert tensor.grad is not None
    torch.testing.assert_close(tensor.grad, torch.full((2,), mean if is_root else 0.0))


def test_alltoall() -> None:
    size = hvd.size()
    for splits in (None, [2] * size):
        tensor = torch.ones(2 * size, requires_grad=True)
        output = hvd.alltoall(tensor, splits=splits)
        rows = output if splits is None else output[0]
        (rows * (hvd.rank() + 1)).sum().backward()
        assert tensor.grad is not None
        assert tensor.grad.tolist() == [r + 1 for r in range(size) for _ in range(2)]


def test_reducescatter() -> None:
    size = hvd.size()
    for op, factor in ((hvd.Sum, size), (hvd.Average, 1)):
        tensor = torch.ones(2 * size, requires_grad=True)
        (hvd.reducescatter(tensor, op=op) * (hvd.rank() + 1)).sum().backward()  # type: ignore[no-untyped-call]
        assert tensor.grad is not None
        assert tensor.grad.tolist() == [factor * (r + 1) for r in range(size) for _ in range(2)]
