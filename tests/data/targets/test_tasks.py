"""Which task numbers are of: where that is sure it is found, else it is asked for."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from phalanx.data.split import Dataset, Split
from phalanx.data.targets.arrays import read_targets
from phalanx.data.targets.scale import scale_from, scale_of, standardised
from phalanx.data.targets.settle import settled
from phalanx.data.targets.tasks import task_of_numbers
from phalanx.errors import DataError, UsageError

RANDOM = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("values", "samples", "fractions", "labels", "task"),
    [
        (2, 100, False, False, "classification"),
        (20, 25, False, False, "classification"),
        (200, 2000, False, False, "classification"),
        (200, 1000, False, False, None),
        (600, 1000, False, False, "regression"),
        (1500, 100_000, False, False, None),
        (1500, 100_000, False, True, "classification"),
        (600, 1000, False, True, None),
        (500, 1000, True, False, "regression"),
        (9, 1000, True, False, None),
    ],
)
def test_the_task_of_numbers(
    values: int, samples: int, fractions: bool, labels: bool, task: str | None
) -> None:
    found = task_of_numbers(values=values, samples=samples, fractions=fractions, labels=labels)
    assert found == task


@pytest.mark.parametrize(
    ("array", "task", "shape"),
    [
        (np.arange(6) % 3, "classification", (6,)),
        (np.array(list("abab")), "classification", (4,)),
        (np.eye(3)[[0, 1, 2, 1]], "classification", (4,)),
        (RANDOM.normal(size=30), "regression", (30, 1)),
        (RANDOM.normal(size=(30, 1)).astype("f4"), "regression", (30, 1)),
        (RANDOM.normal(size=(30, 4)), "regression", (30, 4)),
        (RANDOM.integers(0, 2, (30, 4)), "multi-label", (30, 4)),
        (RANDOM.integers(0, 2, (30, 4)).astype("?"), "multi-label", (30, 4)),
    ],
)
def test_the_task_of_an_array(array: Any, task: str, shape: tuple[int, ...]) -> None:
    found = read_targets(array, where="y")
    assert (found.task, tuple(found.targets.shape)) == (task, shape)


def test_a_task_that_was_asked_for_wins_over_what_shows() -> None:
    whole = np.arange(6) % 3
    assert read_targets(whole, where="y", asked="regression").targets.tolist()[:2] == [[0], [1]]
    assert read_targets(np.eye(3), where="y", asked="multi-label").targets.shape == (3, 3)
    with pytest.raises(DataError, match="row 2 has other numbers than 0 and 1"):
        read_targets(whole, where="y", asked="multi-label")
    with pytest.raises(DataError, match="holds words, and --task regression needs numbers"):
        read_targets(np.array(["a"]), where="y", asked="regression")


def own(targets: Tensor, classes: tuple[str, ...] = (), task: str | None = None) -> Dataset:
    split = Split(torch.zeros(len(targets), 2), targets)
    return Dataset("own", split, split, classes, task=task)


@pytest.mark.parametrize(
    ("targets", "asked", "task", "names"),
    [
        (torch.tensor([0, 1, 2]), None, "classification", ()),
        (torch.tensor([[0, 1], [2, 1]]), None, "classification", ()),
        (torch.rand(5), None, "regression", ("value",)),
        (torch.rand(5, 2), None, "regression", ("value 0", "value 1")),
        (torch.tensor([[0.0, 0.0], [1.0, 1.0]]), None, "multi-label", ("value 0", "value 1")),
        (torch.tensor([[0, 0], [1, 1]]), "multi-label", "multi-label", ("value 0", "value 1")),
        (torch.tensor([3, 4, 5]), "regression", "regression", ("value",)),
    ],
)
def test_a_data_set_of_ones_own(
    targets: Tensor, asked: str | None, task: str, names: tuple[str, ...]
) -> None:
    found = settled(own(targets), asked)
    assert (found.task, found.classes) == (task, names)
    assert found.test is found.train
    if task != "classification":
        assert found.train.targets.is_floating_point()
        assert found.train.targets.shape == (len(targets), len(names))


@pytest.mark.parametrize(
    ("dataset", "asked", "cause"),
    [
        (own(torch.eye(3)), None, "that add up to 1, .*: say --task classification or --task reg"),
        (own(torch.rand(4), task="regression"), "multi-label", "own is for regression"),
        (own(torch.rand(4, 2)), "multi-label", "targets other than 0 and 1"),
        (own(torch.tensor([1.0, torch.nan])), None, "target of sample 1 is no finite number"),
        (own(torch.rand(4, 2, 2)), "regression", r"shape \(4, 2, 2\), and --task regression needs"),
        (own(torch.rand(4, 2), ("a", "b", "c")), None, "2 targets a sample, and 3 names"),
        (own(torch.rand(4), task="regresion"), None, "did you mean 'regression'"),
    ],
)
def test_what_cannot_be_a_task(dataset: Dataset, asked: str | None, cause: str) -> None:
    with pytest.raises((DataError, UsageError), match=cause):
        settled(dataset, asked)


def test_targets_are_standardised_and_restored() -> None:
    values = torch.tensor([[1e9, 5.0], [1e9 + 1, 5.0], [1e9 + 2, 5.0]], dtype=torch.float64)
    dataset = standardised(settled(own(values)))
    assert dataset.scale is not None
    deviation = (2 / 3) ** 0.5
    assert dataset.scale.deviation.tolist() == pytest.approx([deviation, 1.0])
    taken = dataset.train.take(torch.arange(3)).targets
    expected = torch.tensor([[-1 / deviation, 0], [0, 0], [1 / deviation, 0]])
    torch.testing.assert_close(taken, expected)
    again = scale_from(dataset.scale.for_json())
    assert torch.equal(again.restored(dataset.train.targets).round(), values)
    with pytest.raises(DataError, match="all 2 training samples have the same target, 5: there is"):
        scale_of("own", torch.tensor([[5.0], [5.0]]))


def test_other_tasks_are_not_standardised() -> None:
    dataset = settled(own(torch.tensor([[0.0, 0.0], [1.0, 1.0]])))
    assert standardised(dataset) is dataset
