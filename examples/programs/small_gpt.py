"""A small transformer that learns to go on with a text, character by character."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import phalanx
from examples.programs.same_order import SameOrder

EPOCHS, BATCH, WINDOW = 2, 16, 24
TEXT = """
Eight rowers sat in a boat, and each of them pulled as hard as the others. When one of them
was tired, all of them were slow. So they learned to pull together: one called the stroke, and
the rest of them heard it. The boat went straight, and it went far, and nobody on the shore
could tell how many they were.
"""
LETTERS = sorted(set(TEXT))


class Windows(Dataset[dict[str, Tensor]]):
    """Every third place of the text: what stands there, and what comes next."""

    codes = torch.tensor([LETTERS.index(one) for one in TEXT])

    def __len__(self) -> int:
        return (len(TEXT) - WINDOW - 1) // 3

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        piece = self.codes[3 * index : 3 * index + WINDOW + 1]
        return {"text": piece[:-1], "next": piece[1:]}


class Transformer(nn.Module):
    def __init__(self, width: int = 32, *, dropout: float) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), width)
        self.places = nn.Embedding(WINDOW, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 64, dropout, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(LETTERS))

    def forward(self, text: Tensor) -> Tensor:
        hidden = self.letters(text) + self.places(torch.arange(text.shape[1]))
        before = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
        found: Tensor = self.head(self.blocks(hidden, mask=before, is_causal=True))
        return found


def make_model(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return Transformer(dropout=dropout)


def plain(model: nn.Module) -> None:
    data = Windows()
    loader = DataLoader(data, batch_size=BATCH, sampler=SameOrder(data))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003, eps=1e-4)
    model.train()
    for _ in range(EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            outputs = model(batch["text"])
            loss: Any = F.cross_entropy(outputs.flatten(0, 1), batch["next"].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def ours(model: nn.Module, **how: Any) -> list[Any]:
    def objective(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch["text"]).flatten(0, 1), batch["next"].flatten())

    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003, eps=1e-4)
    with phalanx.Trainer(model, optimizer, objective=objective, clip_norm=1.0, **how) as trainer:
        return trainer.fit(Windows(), epochs=EPOCHS, batch_size=BATCH)
