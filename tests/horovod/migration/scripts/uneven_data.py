"""Ranks with different numbers of batches, sparse gradients, and objects of every kind."""

import horovod.torch as hvd
import torch
from horovod.torch.mpi_ops import Sum, allgather_async, allreduce_async_, synchronize
from torch import nn

hvd.init()
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Flatten(), nn.Linear(8, 1))
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1),
    named_parameters=model.named_parameters(),
    sparse_as_dense=True,
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
words = torch.randint(10, (12, 2), generator=torch.Generator().manual_seed(hvd.rank()))
losses = []
for _ in range(10 + 2 * hvd.rank()):
    optimizer.zero_grad()
    loss = (model(words) - 1).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
last = hvd.join()
assert last == 1

model.load_state_dict(hvd.broadcast_object(model.state_dict(), root_rank=last))
scale = hvd.broadcast_object(lambda value: 2 * value, root_rank=0, name="scale")
handles = [allreduce_async_(torch.full((3,), scale(1.0)), name=f"x.{i}", op=Sum) for i in range(3)]
assert [synchronize(handle).tolist() for handle in handles] == [[4.0] * 3] * 3
counts = synchronize(allgather_async(torch.tensor([len(losses)])))
assert counts.tolist() == [10, 12]
received, splits = hvd.alltoall(torch.arange(3), splits=torch.tensor([1, 2]))
assert splits.tolist() == [hvd.rank() + 1] * 2

if hvd.rank() == 0:
    print(f"uneven_data: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
