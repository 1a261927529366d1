"""Ranks that bring different things are told so, all of them, before anything is trained."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from phalanx import Split, Trainer
from phalanx.comm.base import Communicator
from phalanx.errors import UsageError


def make_split(count: int = 12, *, shift: float = 0.0, width: int = 4) -> Split:
    inputs = torch.linspace(-1, 1, count * width).view(count, width)
    inputs[count // 2] += shift
    return Split(inputs, torch.arange(count) % 3)


def fit(comm: Communicator, strategy: str, **given: Any) -> None:
    model = nn.Linear(4, 3)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), strategy=strategy, comm=comm)
    trainer.fit(given.pop("train", make_split()), **({"epochs": 1, "batch_size": 4} | given))


#: What the last rank brings instead, and what everybody is told of it.
DIFFERENT: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "length": (lambda: {"train": make_split(9)}, "brought training samples 9, rank 0 12"),
    "contents": (lambda: {"train": make_split(shift=1)}, "samples with the fingerprint"),
    "targets": (
        lambda: {"train": Split(make_split().inputs, (torch.arange(12) + 1) % 3)},
        "samples with the fingerprint",
    ),
    "scale": (
        lambda: {"train": Split(make_split().inputs, make_split().targets, 2.0)},
        "brought scale of training samples 2.0, rank 0 None",
    ),
    "batch size": (lambda: {"batch_size": 6}, "brought batch_size 6, rank 0 4"),
    "epochs": (lambda: {"epochs": 2}, "brought epochs 2, rank 0 1"),
    "steps": (lambda: {"steps": 1}, "brought steps 1, rank 0 None"),
    "validation": (
        lambda: {"validation": make_split()},
        "brought validation samples 12, rank 0 none",
    ),
    "best": (lambda: {"keep_best": True}, r"brought companions \['BestWeights'\], rank 0 \[\]"),
}


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
@pytest.mark.parametrize("what", DIFFERENT)
def test_what_fit_is_given(comm: Communicator, strategy: str, what: str) -> None:
    given, message = DIFFERENT[what]
    last = comm.size - 1
    with pytest.raises(UsageError, match=rf"fit: rank {last} .*{message}.*: every rank must bring"):
        fit(comm, strategy, **(given() if comm.rank == last else {}))


MADE_DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "seed": ({"seed": 5}, "brought seed 5, rank 0 0"),
    "shards": ({"shards": 4}, "brought shards 4, rank 0 None"),
    "clip": ({"clip_norm": 1.0}, "brought clip_norm 1.0, rank 0 None"),
    "strategy": (
        {"strategy": "gather"},
        r"brought strategy Gather\(by_layer=False\), rank 0 Central\(exchange=None, .*=None\)",
    ),
    "loss": ({"loss": nn.MSELoss(reduction="sum")}, "brought a loss that is a sum, rank 0 mean"),
}


@pytest.mark.ranks(2)
@pytest.mark.parametrize("what", MADE_DIFFERENT)
def test_what_a_trainer_is_given(comm: Communicator, what: str) -> None:
    given, message = MADE_DIFFERENT[what]
    model = nn.Linear(4, 3)
    options: dict[str, Any] = {"strategy": "central"} | (given if comm.rank == 1 else {})
    with pytest.raises(UsageError, match=f"Trainer: rank 1 {message}"):
        Trainer(model, SGD(model.parameters(), lr=0.1), comm=comm, **options)


@pytest.mark.ranks(2)
def test_what_a_trainer_is_made_of(comm: Communicator) -> None:
    first = comm.rank == 0
    model = nn.Linear(4, 3 if first else 2)
    with pytest.raises(UsageError, match=r"parameter 'weight' float32\[2, 4\], rank 0 .*\[3, 4\]"):
        Trainer(model, SGD(model.parameters(), lr=0.1), comm=comm)
    model = nn.Linear(4, 3)
    model.bias.requires_grad = first
    with pytest.raises(UsageError, match=r"'bias' float32\[3\], frozen, rank 0 float32\[3\]:"):
        Trainer(model, SGD(model.parameters(), lr=0.1), comm=comm)
    model = nn.Linear(4, 3)
    with pytest.raises(UsageError, match=r"brought lr \(group 0\) 0.2, rank 0 0.1"):
        Trainer(model, SGD(model.parameters(), lr=0.1 if first else 0.2), comm=comm)
    with pytest.raises(UsageError, match="brought optimizer Adam, rank 0 SGD"):
        Trainer(model, (SGD if first else Adam)(model.parameters(), lr=0.1), comm=comm)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("strategy", ["allreduce", "gather"])
def test_weights_that_one_rank_alone_has_loaded(comm: Communicator, strategy: str) -> None:
    model = nn.Linear(4, 3)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), strategy=strategy, comm=comm)
    if comm.rank == 0:
        nn.init.zeros_(model.weight)
    with pytest.raises(UsageError, match="fit: rank 1 brought weights with the fingerprint"):
        trainer.fit(make_split(), epochs=1, batch_size=4)


@pytest.mark.ranks(2)
def test_what_is_evaluated_and_predicted(comm: Communicator) -> None:
    model = nn.Linear(4, 3)
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), comm=comm)
    split = make_split(shift=comm.rank)
    with pytest.raises(UsageError, match="evaluate: rank 1 brought test samples with the finger"):
        trainer.evaluate(split)
    with pytest.raises(UsageError, match="predict: rank 1 brought test samples with the finger"):
        trainer.predict(split)
