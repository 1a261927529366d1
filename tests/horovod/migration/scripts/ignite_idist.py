"""PyTorch-Ignite's own wrapper around Horovod."""

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events
from torch import nn
from torch.utils.data import TensorDataset


def training(local_rank, config):
    torch.manual_seed(0)
    inputs = torch.randn(32, 4)
    loader = idist.auto_dataloader(
        TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8, shuffle=True
    )
    model = idist.auto_model(nn.Linear(4, 1))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=config["lr"]))
    losses = []

    def update(engine, batch):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    trainer = Engine(update)

    @trainer.on(Events.EPOCH_COMPLETED)
    def collect(engine):
        losses.append(idist.all_reduce(engine.state.output, op="AVERAGE"))

    trainer.run(loader, max_epochs=4)
    assert idist.model_name() == "horovod-dist"
    assert idist.all_gather(idist.get_rank()) == [0, 1]
    assert idist.all_reduce(idist.get_rank() + 1, op="MAX") == 2
    assert idist.broadcast(f"from {idist.get_rank()}", src=1) == "from 1"
    idist.barrier()
    if idist.get_rank() == 0:
        print(f"ignite_idist: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)


with idist.Parallel(backend="horovod") as parallel:
    parallel.run(training, {"lr": 0.05})
