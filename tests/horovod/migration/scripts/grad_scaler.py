"""Mixed precision: the scaler unscales what synchronize() has averaged."""

import horovod.torch as hvd
import torch
from torch import nn

hvd.init()
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)

generator = torch.Generator().manual_seed(1 + hvd.rank())
data = torch.randn(32, 4, generator=generator)
target = data.sum(1, keepdim=True)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(data)
    loss = nn.functional.mse_loss(output.float(), target)
    scaler.scale(loss).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)
    scaler.update()
    losses.append(hvd.allreduce(loss.detach(), name="loss").item())

if hvd.rank() == 0:
    print(f"grad_scaler: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
