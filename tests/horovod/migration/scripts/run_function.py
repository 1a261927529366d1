"""A function on several ranks, from a program that is none."""

import horovod


class Outcome:
    def __init__(self, rank, losses):
        self.rank = rank
        self.losses = losses


def train(lr, steps=5):
    import horovod.torch as hvd
    import torch
    from torch import nn

    hvd.init()
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=lr))
    data = torch.randn(16, 4, generator=torch.Generator().manual_seed(hvd.rank()))
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(data), data.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(hvd.allreduce(loss.detach()).item())
    return Outcome(hvd.rank(), losses)


if __name__ == "__main__":
    outcomes = horovod.run(train, args=(0.1,), kwargs={"steps": 6}, np=2, use_mpi=True)
    assert [type(one) for one in outcomes] == [Outcome] * 2
    assert [one.rank for one in outcomes] == [0, 1]
    assert outcomes[0].losses == outcomes[1].losses
    losses = outcomes[0].losses
    print(f"run_function: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
