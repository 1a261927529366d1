"""The learning rate over a training."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from phalanx.settings.table import Settings
from phalanx.train.optimizers import make_optimizer
from phalanx.train.schedules import Schedule

STEPS = 4


def rates(losses: list[float], **choices: Any) -> list[float]:
    """The rate at every step; the loss of each epoch is given."""
    settings = Settings(epochs=len(losses), learning_rate=1.0, **choices)
    optimizer = make_optimizer(settings, [nn.Parameter(torch.ones(1))])
    schedule = Schedule(optimizer, settings, steps_per_epoch=STEPS)
    found = []
    for loss in losses:
        for _ in range(STEPS):
            found.append(schedule.learning_rate)
            optimizer.step()
            schedule.after_step()
        schedule.after_epoch(loss)
    return found


def test_constant() -> None:
    assert rates([1.0] * 3) == [1.0] * 12


def test_warm_up_rises_with_every_step_and_then_stays() -> None:
    assert rates([1.0] * 2, warm_up=0.75) == pytest.approx([0.25, 0.5, 0.75] + [1.0] * 5)


def test_step() -> None:
    found = rates([1.0] * 5, schedule="step", schedule_epochs=2, schedule_factor=0.5)
    assert found[::STEPS] == pytest.approx([1.0, 1.0, 0.5, 0.5, 0.25])


def test_cosine_after_a_warm_up() -> None:
    found = rates([1.0] * 4, schedule="cosine", warm_up=1)
    for epoch in range(1, 4):
        assert found[epoch * STEPS] == pytest.approx((1 + math.cos(math.pi * epoch / 4)) / 2)
    assert found[0] == pytest.approx(0.2)


def test_plateau() -> None:
    losses = [3.0, 2.0, 2.0, 2.0, 1.0]
    found = rates(losses, schedule="plateau", schedule_epochs=1, schedule_factor=0.5)
    assert found[::STEPS] == pytest.approx([1.0, 1.0, 1.0, 1.0, 0.5])
