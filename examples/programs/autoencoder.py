"""A variational autoencoder: two terms in the loss, and noise in the middle.

The noise comes with the samples here, so that a plain loop and ranks have the same. With `drawn`
the model draws its own, as such a program usually does.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import phalanx
from examples.programs.same_order import SameOrder

EPOCHS, BATCH, LATENT = 3, 16, 3


class Noised(NamedTuple):
    image: Tensor
    noise: Tensor


class Bumps(Dataset[Noised]):
    """Images of 8 x 8 with a bright spot somewhere."""

    def __len__(self) -> int:
        return 130

    def __getitem__(self, index: int) -> Noised:
        draw = torch.Generator().manual_seed(index)
        row, column = torch.rand(2, generator=draw) * 7
        far = (torch.arange(8)[:, None] - row).square() + (torch.arange(8) - column).square()
        return Noised(torch.exp(-far / 4).flatten(), torch.randn(LATENT, generator=draw))


class Autoencoder(nn.Module):
    def __init__(self, *, drawn: bool) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 32), nn.Tanh(), nn.Linear(32, 64))
        self.drawn = drawn

    def forward(self, image: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(image).chunk(2, dim=1)
        noise = torch.randn_like(mean) if self.drawn else noise
        return self.decoder(mean + noise * (log_variance / 2).exp()), mean, log_variance


def make_model(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return Autoencoder(drawn=dropout > 0)


def plain(model: nn.Module) -> None:
    data = Bumps()
    loader = DataLoader(data, batch_size=BATCH, sampler=SameOrder(data))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    model.train()
    for _ in range(EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            outputs, mean, log_variance = model(batch.image, batch.noise)
            error = F.binary_cross_entropy_with_logits(outputs, batch.image) * 64
            distance = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
            (error + distance).backward()
            optimizer.step()


def ours(model: nn.Module, **how: Any) -> list[Any]:
    def objective(model: nn.Module, batch: Any) -> Any:
        outputs, mean, log_variance = model(batch.image, batch.noise)
        error = F.binary_cross_entropy_with_logits(outputs, batch.image) * 64
        distance = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
        return error + distance

    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    with phalanx.Trainer(model, optimizer, objective=objective, **how) as trainer:
        return trainer.fit(Bumps(), epochs=EPOCHS, batch_size=BATCH)
