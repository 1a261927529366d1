"""Schedulers of torch's, stepped by a Trainer as a plain loop would."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.train.trainer import Trainer

DATA = (torch.randn(8, 4, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 3)
STEPS = 2  # an epoch

SCHEDULERS: dict[str, tuple[Any, Callable[[Optimizer], LRScheduler]]] = {
    "exponential": ("epoch", lambda optimizer: ExponentialLR(optimizer, 0.5)),
    "milestones": ("epoch", lambda optimizer: MultiStepLR(optimizer, [1, 3], gamma=0.1)),
    "one cycle": ("step", lambda optimizer: OneCycleLR(optimizer, 1.0, total_steps=8)),
    "of one's own": ("step", lambda optimizer: LambdaLR(optimizer, lambda step: 1 / (1 + step))),
    "sequence": (
        "epoch",
        lambda optimizer: SequentialLR(
            optimizer,
            [LinearLR(optimizer, 0.1, total_iters=2), CosineAnnealingLR(optimizer, 4)],
            milestones=[2],
        ),
    ),
}


def make(comm: Communicator) -> Trainer:
    torch.manual_seed(3)
    model = nn.Linear(4, 3)
    return Trainer(model, SGD(model.parameters(), lr=0.1, momentum=0.9), comm=comm)


def plain_rates(name: str, epochs: int) -> list[float]:
    every, build = SCHEDULERS[name]
    optimizer = SGD(nn.Linear(4, 3).parameters(), lr=0.1, momentum=0.9)
    scheduler = build(optimizer)
    rates = []
    for _ in range(epochs):
        for _ in range(STEPS):
            optimizer.step()
            if every == "step":
                scheduler.step()
        if every == "epoch":
            rates.append(optimizer.param_groups[0]["lr"])
            scheduler.step()
        else:
            rates.append(optimizer.param_groups[0]["lr"])
    return rates


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_rates_of_a_plain_loop(comm: Communicator, name: str) -> None:
    """Also when the training is gone on with from a state, by a scheduler that is made anew."""
    every, build = SCHEDULERS[name]
    expected = plain_rates(name, 4)
    how = {"epochs": 2, "batch_size": 4, "schedule_every": every}
    with make(comm) as trainer:
        first = trainer.fit(DATA, schedule=build(trainer.optimizer), **how)
        state = trainer.state()
    assert [one.learning_rate for one in first] == pytest.approx(expected[:2])
    with make(comm) as other:
        other.load(state)
        second = other.fit(DATA, schedule=build(other.optimizer), **how)
    assert [one.learning_rate for one in second] == pytest.approx(expected[2:])


def test_a_plateau_looks_at_the_loss() -> None:
    trainer = make(SingleCommunicator())
    scheduler = ReduceLROnPlateau(trainer.optimizer, factor=0.5, patience=0, threshold=1e9)
    rates = trainer.fit(DATA, epochs=3, batch_size=4, schedule=scheduler)
    assert [one.learning_rate for one in rates] == pytest.approx([0.1, 0.05, 0.025])


def test_what_does_not_go_together() -> None:
    trainer = make(SingleCommunicator())
    other = make(SingleCommunicator())
    how: dict[str, Any] = {"epochs": 1, "batch_size": 4}
    with pytest.raises(UsageError, match="over another optimizer than this Trainer's"):
        trainer.fit(DATA, schedule=ExponentialLR(other.optimizer, 0.5), **how)
    with pytest.raises(UsageError, match=r"schedule= takes a scheduler of torch.*is an int"):
        trainer.fit(DATA, schedule=3, **how)  # type: ignore[arg-type]
    plateau = ReduceLROnPlateau(trainer.optimizer)
    with pytest.raises(UsageError, match="looks at the loss of epochs"):
        trainer.fit(DATA, schedule=plateau, schedule_every="step", **how)
    with pytest.raises(UsageError, match="leave it out here"):
        trainer.fit(DATA, schedule_every="step", **how)
