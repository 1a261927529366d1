"""Each rank trains a model of its own in a process set of its own, and one with everybody."""

import horovod.torch as hvd
import torch
from horovod.common.process_sets import ProcessSet
from torch import nn

even_set = hvd.ProcessSet(range(0, 2, 2))
odd_set = ProcessSet(range(1, 2, 2))
hvd.init(process_sets=[even_set, odd_set])

for process_set in (hvd.global_process_set, even_set, odd_set):
    if process_set.included():
        total = hvd.allreduce(torch.tensor(1.0), op=hvd.Sum, process_set=process_set)
        assert total.item() == process_set.size()

mine = even_set if even_set.included() else odd_set
losses = {}
for name, process_set in (("everybody", hvd.global_process_set), ("own", mine)):
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.05),
        named_parameters=net.named_parameters(),
        process_set=process_set,
    )
    data = torch.randn(16, 4, generator=torch.Generator().manual_seed(hvd.rank()))
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(data), data.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.setdefault(name, []).append(loss.item())

weights = hvd.allgather_object(net.weight.tolist())
assert weights[0] != weights[1]
try:
    hvd.add_process_set([0])
    message = ""
except ValueError as error:
    message = str(error)
assert "duplicate process set" in message

if hvd.rank() == 0:
    print(f"process_sets: loss {losses['own'][0]:.4f} -> {losses['own'][-1]:.4f}", flush=True)
