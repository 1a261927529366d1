"""Baselines: what answers without looking, and what a line through the inputs makes of them."""

import numpy as np
import pytest
import torch

from phalanx import data
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Dataset, Split
from phalanx.data.targets.scale import standardised
from phalanx.data.targets.settle import settled
from phalanx.train.measures.baselines import baselines

ALONE = SingleCommunicator()


def line(noise: float = 0.1) -> Dataset:
    drawn = torch.Generator().manual_seed(1)
    inputs = torch.randn(300, 3, generator=drawn)
    values = 1000 + 20 * inputs @ torch.tensor([[1.0], [-2.0], [0.0]])
    values += 20 * noise * torch.randn(300, 1, generator=drawn)
    train, test = (Split(inputs[part], values[part]) for part in (slice(200), slice(200, 300)))
    return standardised(settled(Dataset("line", train, test, ("height",))))


@pytest.mark.ranks(1, 2)
def test_numbers(comm: Communicator) -> None:
    dataset = line()
    found = baselines(comm, dataset, ("r2", "mae", "rmse"))
    assert list(found) == ["mean of the targets", "linear model"]
    assert dataset.scale is not None
    values = dataset.scale.restored(dataset.test.targets).numpy()
    away = np.abs(values - dataset.scale.mean.numpy()).mean()
    assert found["mean of the targets"]["more"]["mae"] == pytest.approx(away)
    assert abs(found["mean of the targets"]["more"]["r2"]) < 0.05
    assert found["linear model"]["more"]["r2"] > 0.99
    assert 1 < found["linear model"]["more"]["rmse"] < 3


def test_classes() -> None:
    dataset = settled(data.load("iris"))
    found = baselines(ALONE, dataset, ())
    counts = torch.bincount(dataset.train.targets)
    frequent = float((dataset.test.targets == counts.argmax()).double().mean())
    assert found["most frequent class"]["accuracy"] == pytest.approx(frequent)
    assert found["logistic model"]["accuracy"] > 0.9


def test_labels() -> None:
    inputs = torch.randn(400, 2, generator=torch.Generator().manual_seed(2))
    split = Split(inputs, torch.cat([inputs > 0, inputs[:, :1] > -3], dim=1).float())
    found = baselines(ALONE, settled(Dataset("own", split, split, ())), ("f1-micro", "f1-macro"))
    assert 0 < found["most frequent labels"]["more"]["f1-micro"] < 0.9
    assert found["logistic model"]["more"]["f1-macro"] > 0.95


def test_what_would_take_long_is_left_out() -> None:
    inputs = torch.zeros(30_000, 2)
    split = Split(inputs, torch.arange(30_000) % 2)
    found = baselines(ALONE, settled(Dataset("own", split, split, ("a", "b"))), ())
    assert found["most frequent class"]["accuracy"] == 0.5
    assert found["left_out"] == "logistic model: 30,000 samples of 2 inputs would take long"
    made_up = settled(data.load("synthetic", options={"shape": "4", "samples": 100}))
    assert "not in memory" in baselines(ALONE, made_up, ())["left_out"]


def test_a_class_for_each_place_of_a_sample_has_none() -> None:
    split = Split(torch.zeros(4, 3, dtype=torch.int64), torch.zeros(4, 3, dtype=torch.int64))
    assert baselines(ALONE, settled(Dataset("text", split, split, ("a", "b"))), ()) == {}


def test_random_numbers_of_a_training_stay_what_they_were() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(3)
    torch.manual_seed(3)
    baselines(ALONE, line(), ("r2",))
    assert torch.equal(torch.rand(3), wanted)
