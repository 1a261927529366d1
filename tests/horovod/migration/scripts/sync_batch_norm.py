"""Batch normalisation over all ranks, set up as code that must also run without Horovod does."""

import torch
from torch import nn

try:
    import horovod.torch as hvd
    from horovod.common.util import gpu_available, nccl_built
    from horovod.torch.sync_batch_norm import SyncBatchNorm
except ImportError:
    hvd = None

hvd.init()
device = "cuda" if gpu_available("torch") else "cpu"
backend = "nccl" if nccl_built() else "mpi"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), SyncBatchNorm(8), nn.ReLU(), nn.Linear(8, 1))
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.05), named_parameters=model.named_parameters()
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
data = torch.randn(16, 4, generator=torch.Generator().manual_seed(hvd.rank()))
losses = []
for _ in range(8):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(data), data.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
    losses.append(hvd.allreduce(loss.detach()).item())

means = hvd.allgather(model[1].running_mean.unsqueeze(0))
assert torch.equal(means[0], means[1])

if hvd.rank() == 0:
    print(f"sync_batch_norm: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
