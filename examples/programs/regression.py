"""A network of three layers learns a number from the columns of a table."""

import csv
import io
import random
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import phalanx
from examples.programs.same_order import SameOrder

EPOCHS, BATCH = 10, 16


def write_table(rows: int = 200) -> str:
    """Houses and what they cost, as a csv file has them."""
    draw = random.Random(1)
    lines = ["rooms,age,distance,price"]
    for _ in range(rows):
        rooms, age, distance = draw.randint(1, 8), draw.randint(0, 90), draw.uniform(0, 30)
        price = 40 * rooms - 0.8 * age - 0.1 * rooms * distance + draw.gauss(0, 5)
        lines.append(f"{rooms},{age},{distance:.2f},{price:.2f}")
    return "\n".join(lines)


def make_data() -> TensorDataset:
    rows = [[float(one) for one in row.values()] for row in csv.DictReader(io.StringIO(TABLE))]
    table = torch.tensor(rows)
    table = (table - table.mean(0)) / table.std(0)
    return TensorDataset(table[:, :-1], table[:, -1:])


def make_model(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    first, second = nn.Linear(3, 32), nn.Linear(32, 16)
    middle = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), second, nn.ReLU())
    return nn.Sequential(first, middle, nn.Linear(16, 1))


def plain(model: nn.Module) -> None:
    data = make_data()
    loader = DataLoader(data, batch_size=BATCH, sampler=SameOrder(data))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss = nn.MSELoss()
    model.train()
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()


def ours(model: nn.Module, **how: Any) -> list[Any]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with phalanx.Trainer(model, optimizer, loss=nn.MSELoss(), **how) as trainer:
        return trainer.fit(make_data(), epochs=EPOCHS, batch_size=BATCH)


TABLE = write_table()
