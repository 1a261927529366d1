"""Models to cut over ranks, and how they are trained."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from phalanx import data, models
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.strategies.base import Strategy
from phalanx.train.trainer import Trainer

Build = Callable[[], nn.Module]
OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda parameters: SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: Adam(parameters, lr=0.001),
    "fused": lambda parameters: AdamW(parameters, lr=0.01, fused=True),
}


def mlp() -> nn.Module:
    return models.build("mlp", input_shape=(1, 8, 8), classes=10, options={"hidden": (32, 24, 16)})


def simplecnn() -> nn.Module:
    return models.build("simplecnn", input_shape=(1, 8, 8), classes=10)


def normed() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(6 * 64, 37),
        nn.BatchNorm1d(37),
        nn.Dropout(0.5),
        nn.Linear(37, 10),
    )


def heavy_end() -> nn.Module:
    """Its last convolutions have far more weights than a micro-batch has values."""
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(4),
        nn.Sequential(nn.Conv2d(4, 64, 3, padding=1), nn.ReLU(inplace=True)),
        nn.Conv2d(64, 64, 2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def nested() -> nn.Module:
    """In-place layers everywhere, also where stages begin."""
    return nn.Sequential(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 20)),
        nn.Sequential(nn.ReLU(inplace=True), nn.Sequential(nn.Linear(20, 16))),
        nn.ReLU(inplace=True),
        nn.Linear(16, 10),
    )


class Staged(nn.Module):
    """A model that is not sequential by its class, with a module that only stages() makes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 24)
        self.second = nn.Linear(24, 16)
        self.last = nn.Linear(16, 10)

    def stages(self) -> Iterator[nn.Module]:
        yield nn.Flatten()
        yield self.first
        yield nn.Sequential(nn.Tanh(), self.second)
        yield self.last

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.last(self.second(self.first(inputs.flatten(1)).tanh()))
        return outputs


class Unused(nn.Module):
    """Has a weight that takes no part."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs


def partly_frozen() -> nn.Module:
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 20),
        nn.Tanh(),
        nn.Linear(20, 20),
        Unused(),
        nn.Linear(20, 16),
        nn.Linear(16, 10),
    )
    for index in (1, 5):
        model[index].requires_grad_(False)
    return model


def tied() -> nn.Sequential:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10))
    model[2].weight = model[1].weight
    return model


class Pair(nn.Module):
    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return inputs, inputs


class Sum(nn.Module):
    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        return inputs[0] + inputs[1]


def paired() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), Pair(), Sum(), nn.Linear(64, 10))


def train(
    comm: Communicator,
    strategy: Strategy | str,
    build: Build,
    *,
    optimizer: str = "sgd",
    batch_size: int = 13,
    epochs: int = 1,
    count: int = 67,
    **options: Any,
) -> tuple[list[Tensor], Trainer]:
    torch.manual_seed(11)
    model = build()
    trainer = Trainer(
        model,
        OPTIMIZERS[optimizer](model.parameters()),
        strategy=strategy,
        comm=comm,
        seed=5,
        **options,
    )
    split = data.load("digits").train.subset(torch.arange(count))
    for _ in range(epochs):  # weights are read between, and training goes on
        trainer.sync()
        trainer.fit(split, epochs=1, batch_size=batch_size)
    trainer.sync()
    return [tensor.detach().clone() for tensor in model.state_dict().values()], trainer


def assert_parity(comm: Communicator, strategy: Strategy, build: Build, **options: Any) -> None:
    mine, _ = train(comm, strategy, build, **options)
    alone, _ = train(SingleCommunicator(), "single", build, **options)
    for one, other in zip(mine, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    for tensors in comm.allgather_objects(mine):
        assert all(torch.equal(one, other) for one, other in zip(tensors, mine, strict=True))
