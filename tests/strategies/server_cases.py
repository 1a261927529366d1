"""What the tests of `server`, `gather` and `async` train, and what they compare it with."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from phalanx import data, models
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Split
from phalanx.runs.weights import weights_digest
from phalanx.strategies.base import Strategy
from phalanx.strategies.single import Single
from phalanx.train.trainer import Trainer


class Odd(nn.Module):
    """Tied weights, a frozen layer, a parameter nobody uses, one that a single sample uses."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed = nn.Linear(64, 64).requires_grad_(False)
        self.first = nn.Linear(64, 64, bias=False)
        self.second = nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.unused = nn.Parameter(torch.ones(5))
        self.seldom = nn.Parameter(torch.ones(10))
        self.wide = nn.Parameter(torch.zeros(10, dtype=torch.float64))
        self.last = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        flat = inputs.flatten(1)
        hidden = self.first(torch.tanh(self.fixed(flat)))
        outputs: Tensor = self.last(self.second(torch.relu(hidden))) + self.wide.float()
        chosen = flat[:, :1] > 1.0
        return outputs + chosen * self.seldom if chosen.any() else outputs


def make_model(name: str) -> nn.Module:
    torch.manual_seed(11)
    return Odd() if name == "odd" else models.build(name, input_shape=(1, 8, 8), classes=10)


def make_split() -> Split:
    """Digits, of which one sample is marked by a pixel brighter than any other."""
    split = data.load("digits").train.subset(torch.arange(41))
    split.inputs[7].view(-1)[0] = 255
    return split


def two_groups(model: nn.Module, **options: Any) -> Optimizer:
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": trainable[:2], "lr": 0.01},
        {"params": trainable[2:]},
    ]
    return SGD(groups, lr=0.05, momentum=0.9, **options)


def adam(model: nn.Module) -> Optimizer:
    return Adam(model.parameters(), lr=0.001)


#: A model, how to make its optimizer, and options of the training. 41 samples in batches of 13
#: divide by no number of ranks; in batches of 2 some ranks get none.
CASES: dict[str, tuple[str, Callable[[nn.Module], Optimizer], dict[str, Any]]] = {
    "mlp": ("mlp", two_groups, {"batch_size": 13}),
    "simplecnn": ("simplecnn", adam, {"batch_size": 13, "clip_norm": 0.5}),
    "odd": ("odd", two_groups, {"batch_size": 13, "accumulate": 3}),
    "small batches": ("odd", adam, {"batch_size": 2}),
}


def train(
    comm: Communicator,
    strategy: Strategy,
    model: nn.Module,
    optimizer: Optimizer,
    *,
    batch_size: int,
    **options: Any,
) -> tuple[list[Tensor], float]:
    """The weights after two epochs, and the loss of the last one while it went on."""
    trainer = Trainer(model, optimizer, strategy=strategy, comm=comm, seed=5, **options)
    trainer.fit(make_split(), epochs=1, batch_size=batch_size)
    trainer.sync()  # training goes on after it
    epochs = trainer.fit(make_split(), epochs=1, batch_size=batch_size)
    trainer.sync()
    loss = epochs[-1].train.loss
    return [tensor.detach().clone() for tensor in model.state_dict().values()], loss


def assert_equals_single(comm: Communicator, strategy: Strategy, case: str) -> None:
    """Train a case with a strategy and with `single`: the same weights and losses."""
    name, make_optimizer, options = CASES[case]
    model, again = make_model(name), make_model(name)
    if comm.rank == 1:  # ranks may start differently: rank 0's weights are the ones
        nn.init.zeros_(next(model.parameters()))
    mine, loss = train(comm, strategy, model, make_optimizer(model), **options)
    reference, expected = train(
        SingleCommunicator(), Single(), again, make_optimizer(again), **options
    )
    for one, other in zip(mine, reference, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    assert abs(loss - expected) < 1e-5


def sharded_digest(comm: Communicator, strategy: Strategy, *, shards: int = 4) -> str:
    """The fingerprint of the weights and statistics under fixed shards."""
    torch.manual_seed(21)
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Dropout(0.3), nn.Flatten(), nn.Linear(108, 10)
    )
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    trainer = Trainer(
        model, optimizer, strategy=strategy, comm=comm, seed=7, shards=shards, clip_norm=0.5
    )
    # 35 samples: the last batch has 3, fewer than shards.
    trainer.fit(data.load("digits").train.subset(torch.arange(35)), epochs=2, batch_size=16)
    trainer.sync()
    return weights_digest(model)
