"""A DistributedOptimizer whose gradients are on a GPU that is none: they travel by buckets."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import phalanx.horovod.torch as hvd
from phalanx.horovod.optimizer import staging
from tests.horovod.test_optimizer import backward, batches
from tests.strategies.devices.pretend_gpu import CUDA, PretendGpu, pretended_gpu

pytestmark = pytest.mark.usefixtures("horovod")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendGpu]:
    monkeypatch.setattr(staging, "mark", lambda tensors: [])  # there are no streams
    with pretended_gpu(monkeypatch) as one:
        yield one


class Copies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts those from the GPU to the host, and back."""

    def __init__(self, gpu: PretendGpu) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._gpu = gpu
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name == "aten::copy_":
            into, out_of = (self._gpu.has(one) for one in args[:2])
            if into != out_of:
                self.found["to the GPU" if into else "to the host"] += 1
        return func(*args, **(kwargs or {}))


def network() -> nn.Module:
    torch.manual_seed(3)
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(6)]
    return nn.Sequential(*layers, nn.Linear(4, 2))


def trained(model: nn.Module, data: list[tuple[Tensor, Tensor]], *, alone: bool) -> list[Tensor]:
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if not alone:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    for batch in data:
        optimizer.zero_grad()
        backward(model, batch)
        optimizer.step()
    return [one.detach() for one in model.parameters()]


@pytest.mark.ranks(2)
def test_gradients_go_to_the_host_by_buckets(gpu: PretendGpu) -> None:
    expected = trained(network(), batches(None), alone=True)
    model = network().to("cuda")
    data = [(x.to("cuda"), y.to("cuda")) for x, y in batches(hvd.rank())]
    with Copies(gpu) as copies:
        found = trained(model, data, alone=False)
    steps = len(data)
    assert copies.found == {"to the host": steps, "to the GPU": steps}  # of one bucket
    assert {one.grad.device for one in model.parameters() if one.grad is not None} == {CUDA}
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one.cpu(), other, atol=1e-6)
