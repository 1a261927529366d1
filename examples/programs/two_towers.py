"""Two towers, one of users and one of things, learn which go together; batches are dictionaries."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import phalanx
from examples.programs.same_order import SameOrder

EPOCHS, BATCH, USERS, THINGS = 3, 16, 20, 30


class Pairs(Dataset[dict[str, Any]]):
    """Who was shown what, with what is known of both, and whether it was liked."""

    def __len__(self) -> int:
        return 150

    def __getitem__(self, index: int) -> dict[str, Any]:
        draw = torch.Generator().manual_seed(index)
        user, thing = (index * 7) % USERS, (index * 11) % THINGS
        features = torch.rand(4, generator=draw)
        liked = float((user + thing) % 3 == 0)
        return {"user": user, "thing": {"number": thing, "features": features}, "liked": liked}


class Towers(nn.Module):
    def __init__(self, width: int = 8, *, dropout: float) -> None:
        super().__init__()
        self.users, self.things = nn.Embedding(USERS, width), nn.Embedding(THINGS, width)
        self.features = nn.Linear(4, width)
        self.user_tower, self.thing_tower = (
            nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 8))
            for _ in range(2)
        )

    def forward(self, user: Tensor, thing: dict[str, Tensor]) -> Tensor:
        known = self.things(thing["number"]) + self.features(thing["features"])
        found: Tensor = (self.user_tower(self.users(user)) * self.thing_tower(known)).sum(1)
        return found


def make_model(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return Towers(dropout=dropout)


def plain(model: nn.Module) -> None:
    data = Pairs()
    loader = DataLoader(data, batch_size=BATCH, sampler=SameOrder(data))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model.train()
    for _ in range(EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            scores = model(batch["user"], batch["thing"])
            loss: Any = F.binary_cross_entropy_with_logits(scores, batch["liked"].float())
            loss.backward()
            optimizer.step()


def ours(model: nn.Module, **how: Any) -> list[Any]:
    def objective(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        scores = model(batch["user"], batch["thing"])
        return F.binary_cross_entropy_with_logits(scores, batch["liked"].float()), scores

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with phalanx.Trainer(model, optimizer, objective=objective, **how) as trainer:
        return trainer.fit(Pairs(), epochs=EPOCHS, batch_size=BATCH)
