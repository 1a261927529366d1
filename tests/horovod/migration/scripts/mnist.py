"""As Horovod's own example for MNIST: samplers, broadcasts, averaged metrics, deep imports."""

import horovod.torch as hvd
import torch
import torch.nn.functional as F
from horovod.torch.compression import Compression
from horovod.torch.functions import broadcast_optimizer_state, broadcast_parameters
from horovod.torch.mpi_ops import Average, allreduce, rank, size
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def metric_average(value, name):
    return allreduce(torch.tensor(value), name=name).item()


hvd.init()
torch.manual_seed(42)
inputs = torch.randn(96, 8)
targets = inputs[:, :3].argmax(1)
dataset = TensorDataset(inputs, targets)
sampler = DistributedSampler(dataset, num_replicas=size(), rank=rank())
loader = DataLoader(dataset, batch_size=8, sampler=sampler)

torch.manual_seed(hvd.rank())
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.5)
broadcast_parameters(model.state_dict(), root_rank=0)
broadcast_optimizer_state(optimizer, root_rank=0)
optimizer = hvd.DistributedOptimizer(
    optimizer,
    named_parameters=model.named_parameters(),
    compression=Compression.none,
    op=Average,
    gradient_predivide_factor=1.0,
)

losses = []
for epoch in range(4):
    sampler.set_epoch(epoch)
    total = 0.0
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        total += loss.item()
    losses.append(metric_average(total / len(loader), "avg_loss"))

if hvd.rank() == 0:
    print(f"mnist: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
