import math

import torch
from torch import nn

import phalanx


def make_model(input_shape: tuple[int, ...], classes: int, width: int = 64) -> nn.Module:
    first = nn.Linear(math.prod(input_shape), width)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(width, classes))


if __name__ == "__main__":
    model = make_model((20,), classes=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    points = torch.randn(2000, 20, generator=torch.Generator().manual_seed(1))
    samples = phalanx.Split(points, (points[:, 0] * points[:, 1] > 0).long())

    trainer = phalanx.Trainer(model, optimizer)  # the strategy fits the ranks; name one to choose
    trainer.fit(samples, epochs=30, batch_size=64)
    result = trainer.evaluate(samples)
    if trainer.comm.rank == 0:
        print(f"accuracy {result.accuracy:.1%} (ranks: {trainer.comm.size})")
