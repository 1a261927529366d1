"""Fixed shards: bit for bit the same weights on any number of ranks, for every strategy."""

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from phalanx import data
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.runs.weights import weights_digest
from phalanx.train.trainer import Trainer

SHARDS = 4


def make_model() -> nn.Module:
    torch.manual_seed(21)
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(6 * 64, 37),  # 37 outputs: pieces that no vector width divides
        nn.BatchNorm1d(37),
        nn.Dropout(0.5),
        nn.Linear(37, 10),
    )


def train(comm: Communicator, strategy: str, *, seed: int = 7, **options: Any) -> str:
    """The fingerprint of the weights after two epochs in batches of 16, the last of 8."""
    model = make_model()
    adam = options.pop("adam", False)
    parameters = model.parameters()
    optimizer = (
        AdamW(parameters, lr=0.01, fused=True)
        if adam
        else SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)
    )
    trainer = Trainer(
        model, optimizer, strategy=strategy, comm=comm, seed=seed, shards=SHARDS, **options
    )
    # The last batch has 2 samples for each of 4 shards: BatchNorm1d needs that many.
    split = data.load("digits").train.subset(torch.arange(7 * 16 + 8))
    trainer.fit(split, epochs=2, batch_size=16)
    trainer.sync()
    return weights_digest(model)


@cache
def train_alone(**options: Any) -> str:
    """What all are compared with, once for all of them."""
    return train(SingleCommunicator(), "single", **options)


OPTIONS = [{}, {"clip_norm": 0.5}, {"adam": True, "clip_norm": 1.0}]


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "clipped", "adamw"])
def test_the_same_bits_on_any_number_of_ranks(
    comm: Communicator, strategy: str, options: dict[str, Any]
) -> None:
    digests = comm.allgather_objects(train(comm, strategy, **options))
    assert set(digests) == {train_alone(**options)}


def test_another_seed_gives_other_weights() -> None:
    assert train_alone() != train_alone(seed=8)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
def test_a_batch_smaller_than_the_shards(comm: Communicator, strategy: str) -> None:
    """Shards without samples count for nothing, least of all in running statistics."""

    def weights(comm: Communicator, strategy: str) -> str:
        torch.manual_seed(1)
        model = nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(108, 10)
        )
        trainer = Trainer(
            model, SGD(model.parameters(), lr=0.1), strategy=strategy, comm=comm, shards=SHARDS
        )
        trainer.fit(data.load("digits").train.subset(torch.arange(8)), epochs=1, batch_size=3)
        return weights_digest(model)

    assert weights(comm, strategy) == weights(SingleCommunicator(), "single")


def test_one_shard_is_plain_training() -> None:
    """One shard, and no randomness or statistics to tell: the bits of a plain torch loop."""

    def train_once(shards: int | None) -> list[Tensor]:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 33), nn.Tanh(), nn.Linear(33, 10))
        trainer = Trainer(
            model,
            SGD(model.parameters(), lr=0.1, momentum=0.9),
            strategy="single",
            comm=SingleCommunicator(),
            shards=shards,
        )
        trainer.fit(data.load("digits").train.subset(torch.arange(64)), epochs=2, batch_size=16)
        return list(model.parameters())

    for one, other in zip(train_once(1), train_once(None), strict=True):
        assert torch.equal(one, other)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
@pytest.mark.parametrize("kind", ["accumulated", "sparse"])
def test_what_adds_to_a_gradient_more_than_once(
    comm: Communicator, strategy: str, kind: str
) -> None:
    """Each shard is added up by itself before shards are, also where one rank has them all."""

    def weights(comm: Communicator, strategy: str) -> str:
        torch.manual_seed(1)
        first = nn.Linear(64, 33) if kind == "accumulated" else nn.Embedding(17, 33, sparse=True)
        model = nn.Sequential(nn.Flatten(), Summing(first), nn.Tanh(), nn.Linear(33, 10))
        trainer = Trainer(
            model,
            SGD(model.parameters(), lr=0.1, momentum=0.9),
            strategy=strategy,
            comm=comm,
            shards=SHARDS,
            accumulate=2 if kind == "accumulated" else 1,
        )
        trainer.fit(data.load("digits").train.subset(torch.arange(74)), epochs=1, batch_size=37)
        return weights_digest(model)

    assert weights(comm, strategy) == weights(SingleCommunicator(), "single")


class Summing(nn.Module):
    """A linear layer, or an embedding of every pixel's brightness, added up."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, inputs: Tensor) -> Tensor:
        if isinstance(self.layer, nn.Linear):
            linear: Tensor = self.layer(inputs)
            return linear
        outputs: Tensor = self.layer((inputs * 16).long()).sum(1)
        return outputs
