import torch
from torch import nn

import phalanx

model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
points = torch.randn(2000, 20, generator=torch.Generator().manual_seed(1))
samples = phalanx.Split(points, (points[:, 0] * points[:, 1] > 0).long())

trainer = phalanx.Trainer(model, optimizer)  # the strategy fits the ranks; name one to choose
trainer.fit(samples, epochs=30, batch_size=64)
result = trainer.evaluate(samples)
if trainer.comm.rank == 0:
    print(f"{trainer.comm.size} ranks: accuracy {result.accuracy:.1%}")
