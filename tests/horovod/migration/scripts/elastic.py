"""Elastic training, with one failure on the way."""

import horovod.torch as hvd
import torch
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

hvd.init()
torch.manual_seed(0)
data = torch.randn(48, 4)
dataset = TensorDataset(data, data.sum(1, keepdim=True))
sampler = ElasticSampler(dataset)
loader = DataLoader(dataset, batch_size=6, sampler=sampler)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
losses = []
failures = []


@hvd.elastic.run
def train(state):
    for state.epoch in range(state.epoch, 4):  # noqa: B020
        for state.batch, (inputs, targets) in enumerate(loader):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            sampler.record_batch(state.batch, inputs.shape[0])
            if state.epoch == 1 and not failures:
                failures.append("once")
                raise HorovodInternalError("a lost worker")
        losses.append(hvd.allreduce(loss.detach(), name="epoch_loss").item())
        sampler.set_epoch(state.epoch + 1)
        state.batch = 0
        state.commit()


state = TorchState(model=model, optimizer=optimizer, sampler=sampler, batch=0, epoch=0)
state.register_reset_callbacks([lambda: failures.append("reset")])
train(state)
assert failures == ["once", "reset"]

if hvd.rank() == 0:
    print(f"elastic: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
