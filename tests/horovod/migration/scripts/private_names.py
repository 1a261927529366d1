"""As libraries on top of Horovod do: private names, and optimizers that they look into."""

import contextlib

import horovod.torch as hvd
import torch
from horovod.torch.optimizer import _DistributedOptimizer
from torch import nn
from torch.optim import Optimizer


class Strategy:
    """Wraps an optimizer, and steps it with or without an exchange."""

    def __init__(self):
        hvd.init()

    def wrap_optimizer(self, optimizer: Optimizer, model: nn.Module) -> _DistributedOptimizer:
        wrapped = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        assert "horovod" in str(wrapped.__class__)
        assert set(wrapped._parameter_names.values()) == {"weight", "bias"}
        assert wrapped._requires_update == set(model.parameters())
        return wrapped

    @contextlib.contextmanager
    def prepare_optimizer_update(self, optimizer: _DistributedOptimizer):
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            yield


strategy = Strategy()
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = strategy.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model)
hvd.broadcast_parameters(list(model.named_parameters()), root_rank=0)
data = torch.randn(16, 4, generator=torch.Generator().manual_seed(hvd.rank()))
losses = []
for _ in range(5):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(data), data.sum(1, keepdim=True))
    loss.backward()
    with strategy.prepare_optimizer_update(optimizer):
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    losses.append(hvd.mpi_ops.allreduce(loss.detach(), op=hvd.mpi_ops.Average).item())

if hvd.rank() == 0:
    print(f"private_names: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
