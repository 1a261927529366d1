"""An LSTM over sequences of different lengths, padded; padding does not count in the loss."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

import phalanx
from examples.programs.same_order import SameOrder

EPOCHS, BATCH = 3, 12


class Sums(Dataset[Tensor]):
    """Numbers whose running sum is to be learned: between 1 and 12 of them."""

    def __len__(self) -> int:
        return 90

    def __getitem__(self, index: int) -> Tensor:
        return torch.randn(1 + index % 12, generator=torch.Generator().manual_seed(index))


def collate(samples: list[Tensor]) -> dict[str, Tensor]:
    values = pad_sequence(samples, batch_first=True)
    lengths = torch.tensor([len(one) for one in samples])
    mask = torch.arange(values.shape[1]) < lengths[:, None]
    return {"values": values, "sums": values.cumsum(1), "mask": mask}


class Summing(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 16, batch_first=True)
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(16, 1))

    def forward(self, values: Tensor) -> Tensor:
        found: Tensor = self.head(self.lstm(values.unsqueeze(2))[0])
        return found.squeeze(2)


def make_model(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return Summing(dropout)


def plain(model: nn.Module) -> None:
    data = Sums()
    loader = DataLoader(data, batch_size=BATCH, sampler=SameOrder(data), collate_fn=collate)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _ in range(EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            errors = (model(batch["values"]) - batch["sums"]).square()
            loss = (errors * batch["mask"]).sum() / batch["mask"].sum()
            loss.backward()
            optimizer.step()


def ours(model: nn.Module, **how: Any) -> list[Any]:
    def masked(model: nn.Module, batch: Any) -> Any:
        errors = (model(batch["values"]) - batch["sums"]).square()
        return (errors * batch["mask"]).sum() / batch["mask"].sum()

    objective = phalanx.Objective(masked, weigh=lambda batch: batch["mask"].sum().item())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with phalanx.Trainer(model, optimizer, objective=objective, **how) as trainer:
        return trainer.fit(Sums(), epochs=EPOCHS, batch_size=BATCH, collate=collate)
