"""The learning rate over a training."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from phalanx.errors import UsageError
from phalanx.settings.table import Settings
from phalanx.state import State
from phalanx.state.optimizer import read_groups, write_groups
from phalanx.train.companions.schedules import Schedule
from phalanx.train.optimizers import make_optimizer

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


def test_a_plateau_of_what_rises() -> None:
    how = {"schedule": "plateau", "schedule_epochs": 1, "schedule_factor": 0.5}
    found = rates([0.1, 0.5, 0.5, 0.5, 0.6], watch="accuracy", keep_best=True, **how)
    assert found[::STEPS] == pytest.approx([1.0, 1.0, 1.0, 1.0, 0.5])


@pytest.mark.parametrize(
    ("how", "last"),
    [
        ({"schedule": "step", "schedule_epochs": 1}, 0.03),
        ({"schedule": "plateau", "schedule_epochs": 1}, 0.03),
        ({"schedule": "cosine"}, 0.03 + 0.97 * (1 + math.cos(math.pi * 5 / 6)) / 2),
    ],
    ids=["step", "plateau", "cosine"],
)
def test_a_rate_falls_no_further(how: dict[str, Any], last: float) -> None:
    found = rates([1.0] * 6, schedule_min_rate=0.03, **how)
    assert found[-1] == pytest.approx(last)
    assert min(found) >= 0.03 - 1e-12


def test_a_warm_up_below_that_is_one_all_the_same() -> None:
    found = rates([1.0] * 4, schedule="step", schedule_epochs=9, warm_up=3, schedule_min_rate=0.5)
    assert found == pytest.approx(rates([1.0] * 4, warm_up=3))
    assert min(found) < 0.1


def test_a_warm_up_may_be_given_in_steps() -> None:
    assert rates([1.0] * 2, warm_up_steps=3) == rates([1.0] * 2, warm_up=0.75)


def gone_on_with(
    done: int, epochs: int, now: dict[str, Any], before: dict[str, Any]
) -> tuple[list[float], list[float]]:
    """The rates of the epochs after so many: of a training that was changed then, and of one that
    always had been so."""
    found = []
    for first, second in ((before, now), (now, now)):
        rates = []
        state = State()
        for settings, begin, end in ((first, 0, done), (second, done, epochs)):
            chosen = Settings(**settings)
            optimizer = make_optimizer(chosen, [nn.Parameter(torch.ones(1))])
            schedule = Schedule(optimizer, chosen, steps_per_epoch=STEPS)
            if begin:
                write_groups(optimizer, state)
                schedule.load(state)
            for _ in range(begin, end):
                for _ in range(STEPS):
                    rates.append(schedule.learning_rate)
                    optimizer.step()
                    schedule.after_step()
                schedule.after_epoch(1.0)
            state = schedule.state().add(read_groups(optimizer, {}))
        found.append(rates[done * STEPS :])
    return found[0], found[1]


@pytest.mark.parametrize("schedule", ["constant", "step", "cosine", "plateau"])
@pytest.mark.parametrize("done", [1, 2, 4])
def test_another_learning_rate_on_the_way(schedule: str, done: int) -> None:
    """It is as if it always had been that one, also during and after the warm-up."""
    common = {"schedule": schedule, "epochs": 6, "warm_up": 1.5}
    if schedule in ("step", "plateau"):
        common["schedule_epochs"] = 1
    ours, theirs = gone_on_with(
        done, 6, {**common, "learning_rate": 0.3}, {**common, "learning_rate": 0.1}
    )
    assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("before", [3, 4, 9])
def test_a_cosine_over_other_epochs(before: int) -> None:
    """Also one that had come to its end."""
    common = {"schedule": "cosine", "learning_rate": 0.1}
    ours, theirs = gone_on_with(3, 6, {**common, "epochs": 6}, {**common, "epochs": before})
    assert ours == pytest.approx(theirs)


def test_a_rate_of_nothing_cannot_become_another() -> None:
    with pytest.raises(UsageError, match=r"a learning rate of 0 so far, and cannot go on with 0.5"):
        gone_on_with(1, 2, {"learning_rate": 0.5}, {"learning_rate": 0.0})
