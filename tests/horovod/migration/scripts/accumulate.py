"""Several backward passes for each step."""

import horovod.torch as hvd
import torch
from horovod.common.util import split_list
from torch import nn

BATCHES_PER_ALLREDUCE = 3

hvd.init()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    backward_passes_per_step=BATCHES_PER_ALLREDUCE,
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

generator = torch.Generator().manual_seed(1 + hvd.rank())
data = torch.randn(30, 4, generator=generator)
losses = []
for _ in range(10):
    optimizer.zero_grad()
    total = 0.0
    for part in split_list(data, BATCHES_PER_ALLREDUCE):
        loss = nn.functional.mse_loss(model(part), part.sum(1, keepdim=True))
        loss.div_(BATCHES_PER_ALLREDUCE)
        loss.backward()
        total += loss.item()
    optimizer.step()
    losses.append(hvd.allreduce(torch.tensor(total)).item())

if hvd.rank() == 0:
    print(f"accumulate: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
