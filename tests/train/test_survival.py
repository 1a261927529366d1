"""What is known of ranks that were lost; that a training survives it is in tests/chaos."""

import logging

import pytest

from phalanx.comm.recovery.survivors import Survivors
from phalanx.comm.single import SingleCommunicator
from phalanx.train.survival import Survival


@pytest.fixture
def survival() -> Survival:
    """Of four ranks that have done ten steps."""
    survival = Survival()
    survival._numbers = [0, 1, 2, 3]
    survival.after_step(10)
    return survival


def lose(survival: Survival, *ranks: int) -> None:
    survival.notice()
    survival.lose(Survivors(SingleCommunicator(), list(ranks)))


def test_a_loss_is_over_when_the_training_is_as_far_again(survival: Survival) -> None:
    lose(survival, 1)
    survival.going_on(SingleCommunicator(), 8)
    [loss] = survival.losses
    assert (loss.ranks, loss.step, loss.from_step, loss.seconds) == ([1], 10, 8, None)
    survival.after_step(9)
    assert loss.seconds is None
    survival.after_step(10)
    assert loss.seconds is not None
    assert loss.noticed > 0


def test_a_loss_behind_the_last_step_is_over_at_once(survival: Survival) -> None:
    lose(survival, 0)
    survival.going_on(SingleCommunicator(), 10)
    assert survival.losses[0].seconds is not None


def test_losses_in_a_row(survival: Survival, caplog: pytest.LogCaptureFixture) -> None:
    """The second one before the others could go on: ranks keep their first numbers."""
    lose(survival, 1)
    lose(survival, 1)
    with caplog.at_level(logging.WARNING, "phalanx.train"):
        survival.going_on(SingleCommunicator(), 8)
    assert "ranks 1, 2 are lost after step 10: 1 rank goes on from step 8" in caplog.text
    survival.after_step(10)
    assert [(one.ranks, one.from_step) for one in survival.losses] == [([1], 8), ([2], 8)]
    assert all(one.seconds is not None for one in survival.losses)
