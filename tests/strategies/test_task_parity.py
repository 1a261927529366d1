"""Regressions and labels: every strategy gives the weights and the metrics of one rank."""

from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Dataset, Split
from phalanx.data.targets.scale import standardised
from phalanx.data.targets.settle import settled
from phalanx.settings.metrics import ALWAYS, RANKED
from phalanx.settings.task_options import loss_of
from phalanx.strategies.base import Strategy
from phalanx.train.metrics import Metrics
from phalanx.train.trainer import Trainer
from tests.strategies.test_parity import EXACT, assert_close

TASKS = ("regression", "multi-label")


def dataset(task: str) -> Dataset:
    drawn = torch.Generator().manual_seed(4)
    inputs = torch.randn(67, 6, generator=drawn)
    values = inputs @ torch.randn(6, 3, generator=drawn) * 100 + 1000
    split = Split(inputs, values if task == "regression" else (values > 1000).float())
    return standardised(settled(Dataset("own", split, split, ("a", "b", "c"))))


def train(
    comm: Communicator, task: str, strategy: str | Strategy, *, shards: int | None = None
) -> tuple[list[Tensor], Metrics, Metrics]:
    """The weights, what the last epoch came to, and an evaluation."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    samples = dataset(task)
    names = (*ALWAYS[task], *(RANKED if task == "multi-label" else ()))
    with Trainer(
        model,
        SGD(model.parameters(), lr=0.05, momentum=0.9),
        loss=loss_of(task, None),
        strategy=strategy,
        comm=comm,
        seed=5,
        shards=shards,
        metrics=names,
    ) as trainer:
        trainer.target_unit = None if samples.scale is None else samples.scale.deviation
        epochs = trainer.fit(samples.train, epochs=2, batch_size=13)
        test = trainer.evaluate(samples.test)
    return [one.detach().clone() for one in model.parameters()], epochs[-1].train, test


@cache
def train_alone(task: str) -> tuple[list[Tensor], Metrics, Metrics]:
    return train(SingleCommunicator(), task, "single")


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("strategy", EXACT)
def test_every_strategy_equals_single(comm: Communicator, strategy: str, task: str) -> None:
    weights, epoch, test = train(comm, task, EXACT[strategy])
    alone, epoch_alone, test_alone = train_alone(task)
    assert_close(weights, alone, 1e-5)
    assert epoch.more == pytest.approx(epoch_alone.more, rel=1e-3, abs=1e-3)
    assert test.more == pytest.approx(test_alone.more, rel=1e-3, abs=1e-3)
    assert (epoch.count, test.count) == (67, 67)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
def test_shards_have_the_same_bits(comm: Communicator, strategy: str, task: str) -> None:
    weights, _, test = train(comm, task, strategy, shards=4)
    alone, _, test_alone = train(SingleCommunicator(), task, "single", shards=4)
    assert all(torch.equal(one, other) for one, other in zip(weights, alone, strict=True))
    if task == "multi-label":
        assert test.more == test_alone.more


@pytest.mark.parametrize("task", TASKS)
def test_something_is_learnt(task: str) -> None:
    _, _, test = train_alone(task)
    assert test.more["r2" if task == "regression" else "auroc"] > (
        0.1 if task == "regression" else 0.6
    )
    if task == "regression":  # in the unit of the targets, which deviate by hundreds
        assert 10 < test.more["mae"] < 300
