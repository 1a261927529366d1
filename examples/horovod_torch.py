"""A Horovod script, unchanged but for its import. Run it on any number of ranks:

    mpiexec -n 4 python examples/horovod_torch.py

The numbered comments are the seven steps of Horovod's own guide.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import phalanx.data
import phalanx.horovod.torch as hvd

SAMPLES = 1280
Loader = DataLoader[tuple[torch.Tensor, ...]]


def train(
    *, epochs: int = 5, batch_size: int = 16, learning_rate: float = 0.025, folder: Path = Path()
) -> nn.Module:
    """Train a small network on handwritten digits; batch size and learning rate are a rank's."""
    # 1. Start.
    hvd.init()

    # 2. Pin each rank to its share of the machine: a GPU for each, or here a thread.
    torch.set_num_threads(1)
    torch.manual_seed(7)

    # 3. Give each rank its part of the data.
    samples = phalanx.data.load("digits").train.take(torch.arange(SAMPLES))
    data = TensorDataset(samples.inputs, samples.targets)
    sampler: DistributedSampler[object] = DistributedSampler(
        data, num_replicas=hvd.size(), rank=hvd.rank(), drop_last=True
    )
    loader = DataLoader(data, batch_size, sampler=sampler)

    # 4. Scale the learning rate: the global batch grows with the number of ranks.
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate * hvd.size(), momentum=0.9)

    # 5. Wrap the optimizer.
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    # 6. Begin with the same parameters and optimizer state everywhere.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        loss = train_epoch(model, optimizer, loader)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss:.4f}", flush=True)

    # 7. Save on rank 0 alone.
    if hvd.rank() == 0:
        torch.save(model.state_dict(), folder / "horovod_digits.pt")
    return model


def train_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, loader: Loader) -> float:
    """Once through a rank's part of the data, as without Horovod; the loss of all ranks."""
    total = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        total += loss.item()
    return hvd.allreduce(torch.tensor(total / len(loader)), name="loss").item()


if __name__ == "__main__":
    train()
