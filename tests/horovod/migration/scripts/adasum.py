"""Adasum, chosen as Horovod's examples do by a flag."""

import argparse

import horovod.torch as hvd
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--use-adasum", action="store_true", default=True)
parser.add_argument("--base-lr", type=float, default=0.05)
args = parser.parse_args([])

hvd.init()
torch.manual_seed(0)
model = nn.Linear(4, 1)
lr_scaler = hvd.size() if not args.use_adasum else 1
optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr * lr_scaler)
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    op=hvd.Adasum if args.use_adasum else hvd.Average,
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

generator = torch.Generator().manual_seed(1 + hvd.rank())
data = torch.randn(32, 4, generator=generator)
losses = []
for _ in range(10):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(data), data.sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
    losses.append(hvd.allreduce(loss.detach(), average=True).item())

if hvd.rank() == 0:
    print(f"adasum: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
