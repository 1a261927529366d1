"""A training that has learned nothing is told so, and what to try."""

from typing import Any

import pytest
import torch

from phalanx.settings.files import read_settings
from phalanx.train.checks.learned import advice, most_frequent


def said(
    settings: dict[str, Any] | None = None,
    *,
    steps: int = 1000,
    losses: tuple[float, float] | None = (2.3, 0.5),
    accuracy: float | None = 0.9,
    share: float | None = 0.13,
) -> str | None:
    return advice(
        read_settings(settings or {}),
        steps=steps,
        losses=losses,
        accuracy=accuracy,
        most_frequent=None if share is None else ("two", share),
    )


def test_who_has_learned_something_is_told_nothing() -> None:
    assert said() is None
    assert said(losses=(0.1, 0.1), accuracy=0.99) is None  # it went on from trained weights
    assert said(losses=None, accuracy=0.2) is None
    assert said(accuracy=None, share=None) is None


def test_who_could_not_learn_is_told_nothing() -> None:
    assert said(steps=4, losses=(2.3, 2.4), accuracy=0.05) is None


def test_an_accuracy_that_one_answer_would_have_is_none() -> None:
    told = said(accuracy=0.13)
    assert told is not None
    first, second = told.splitlines()
    assert first.endswith("13.00% right, where the best constant answer, 'two', gets 13.00%")
    assert second == "what may help: --epochs 90"


def test_a_loss_that_has_not_fallen_is_none() -> None:
    assert "learned next to nothing" in str(said(losses=(2.3, 2.29), accuracy=0.167))
    alone = said(losses=(2.3, 2.4), accuracy=None, share=None)
    assert "2.3 in the first epoch and 2.4 in the last" in str(alone)


@pytest.mark.parametrize(
    ("given", "helps"),
    [
        ({"optimizer": "sgd", "normalise": False, "epochs": 5}, "--normalise, --optimizer adam"),
        ({"learning_rate": 0.5}, "--learning-rate 0.001"),
        ({}, "--learning-rate 0.0001, --epochs 90"),
    ],
)
def test_what_may_help(given: dict[str, Any], helps: str) -> None:
    assert f"what may help: {helps}" in str(said(given, losses=(2.3, 2.5), accuracy=0.1))


def test_the_most_frequent_class() -> None:
    assert most_frequent(torch.tensor([0, 2, 2, 1]), ["a", "b", "c"]) == ("c", 0.5)
    assert most_frequent(torch.tensor([0.5, 2.0]), ["a"]) is None
    assert most_frequent(torch.empty(0, dtype=torch.long), ["a"]) is None
