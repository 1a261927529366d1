"""A small convolutional network of images, in which rare classes count more."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import phalanx
from examples.programs.same_order import SameOrder

EPOCHS, BATCH = 3, 20
#: Most images have no stripe; few have an upright one.
COUNTS = (90, 40, 11)
WEIGHTS = torch.tensor([sum(COUNTS) / count for count in COUNTS])


class Stripes(Dataset[tuple[Tensor, int]]):
    """Noise with nothing in it, with a level stripe, or with an upright one."""

    def __len__(self) -> int:
        return sum(COUNTS)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        kind = int(index >= COUNTS[0]) + int(index >= COUNTS[0] + COUNTS[1])
        draw = torch.Generator().manual_seed(index)
        image, place = torch.randn(1, 8, 8, generator=draw), index % 8
        if kind == 1:
            image[0, place] += 2
        if kind == 2:
            image[0, :, place] += 2
        return image, kind


def make_model(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(8 * 4 * 4, 3),
    )


def plain(model: nn.Module) -> None:
    data = Stripes()
    loader = DataLoader(data, batch_size=BATCH, sampler=SameOrder(data))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss = nn.CrossEntropyLoss(weight=WEIGHTS)
    model.train()
    for _ in range(EPOCHS):
        for images, labels in loader:
            optimizer.zero_grad()
            loss(model(images), labels).backward()
            optimizer.step()


def ours(model: nn.Module, **how: Any) -> list[Any]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss = nn.CrossEntropyLoss(weight=WEIGHTS)
    with phalanx.Trainer(model, optimizer, loss=loss, **how) as trainer:
        return trainer.fit(Stripes(), epochs=EPOCHS, batch_size=BATCH)
