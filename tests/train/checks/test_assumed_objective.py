"""An objective that is no mean over the samples is found out where batches are cut."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.strategies.base import Objective, Task
from phalanx.train.checks.assumed_objective import mistake
from phalanx.train.trainer import Trainer

DRAW = torch.Generator().manual_seed(1)
POINTS = torch.randn(24, 4, generator=DRAW)
OTHERS = torch.randn(24, 4, generator=DRAW)
Function = Callable[[nn.Module, Any], Tensor]


def mean(model: nn.Module, batch: Any) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[1])


def total(model: nn.Module, batch: Any) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[1], reduction="sum")


def contrasting(model: nn.Module, batch: Any) -> Tensor:
    """Every other sample of a batch is one that does not fit."""
    scores = model(batch[0]) @ model(batch[1]).T
    return F.cross_entropy(scores, torch.arange(len(scores)))


def noisy(model: nn.Module, batch: Any) -> Tensor:
    return total(model, (batch[0] + torch.randn_like(batch[0]), batch[1]))


def half(model: nn.Module, batch: Any) -> Any:
    """A mean over those whose first number is positive."""
    counts = (batch[0][:, 0] > 0).float()
    return (F.mse_loss(model(batch[0]), batch[1], reduction="none").mean(1) @ counts) / counts.sum()


def weight_of_half(batch: Any) -> float:
    return float((batch[0][:, 0] > 0).sum())


def at_least_three(model: nn.Module, batch: Any) -> Tensor:
    if len(batch[0]) < 13:
        raise ValueError("too few")
    return mean(model, batch)


def in_training(model: nn.Module, batch: Any) -> Tensor:
    if not model.training:
        raise ValueError("no loss in evaluation")
    return total(model, batch)


def make_model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 4))


def make_task(objective: Function | Objective) -> Task:
    model, whole = make_model(), objective
    if not isinstance(whole, Objective):
        whole = Objective(whole, assumed=True)
    return Task(model, SGD(model.parameters(), lr=0.001), whole.as_loss(), objective=whole)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (total, "the objective total is taken for a mean over the samples, and over 24 samples"),
        (contrasting, "where its halves make"),
        (half, "where its halves make"),
        (at_least_three, r"cannot be computed of some samples of a batch \(too few\)"),
        (Objective(total, weigh=weight_of_half), "a mean over what weigh= says"),
    ],
    ids=["sum", "contrast", "half", "too few", "wrong weight"],
)
def test_what_is_no_mean_is_found(objective: Function | Objective, message: str) -> None:
    found = mistake(make_task(objective), (POINTS, OTHERS))
    assert found is not None
    assert re.search(message, found)


@pytest.mark.parametrize(
    "objective",
    [mean, noisy, in_training, Objective(half, weigh=weight_of_half)],
    ids=["mean", "noise", "training alone", "weighed"],
)
def test_what_is_one_or_cannot_be_known_is_not(objective: Function | Objective) -> None:
    task = make_task(objective)
    assert mistake(task, (POINTS, OTHERS)) is None
    assert mistake(task, (POINTS[:1], OTHERS[:1])) is None


def test_halves_in_which_nothing_counts() -> None:
    points = torch.cat([POINTS[:12].abs(), -POINTS[12:].abs()])
    task = make_task(Objective(half, weigh=weight_of_half))
    assert mistake(task, (points, OTHERS)) is None
    assert mistake(task, (-POINTS.abs(), OTHERS)) is None


def test_it_leaves_no_trace() -> None:
    task = make_task(noisy)
    task.model[1].eval()  # type: ignore[index]
    modes = [module.training for module in task.model.modules()]
    before = {name: one.clone() for name, one in task.model.state_dict().items()}
    random = torch.get_rng_state()
    mistake(task, (POINTS, OTHERS))
    assert torch.equal(torch.get_rng_state(), random)
    assert [module.training for module in task.model.modules()] == modes
    assert all(torch.equal(one, before[name]) for name, one in task.model.state_dict().items())
    assert all(parameter.grad is None for parameter in task.model.parameters())


def fit(comm: Communicator, objective: Function | Objective, batch_size: int, **how: Any) -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    optimizer = SGD(model.parameters(), lr=0.001)
    with Trainer(model, optimizer, objective=objective, comm=comm, **how) as trainer:
        trainer.fit((POINTS, OTHERS), epochs=1, batch_size=batch_size)


def test_only_where_batches_are_cut() -> None:
    alone = SingleCommunicator()
    fit(alone, contrasting, 8)
    fit(alone, Objective(contrasting), 8, shards=4)  # who says so is believed
    for how in ({"shards": 4}, {"accumulate": 2}):
        for size in (8, 4):
            with pytest.raises(UsageError, match=r"phalanx.Objective\(function, weigh=…\)"):
                fit(alone, contrasting, size, **how)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("strategy", ["allreduce", "central", "server", "local", "async", "tensor"])
def test_on_every_rank_and_by_every_strategy(comm: Communicator, strategy: str) -> None:
    how = {"strategy": strategy, "accumulate": 2 if strategy == "tensor" else 1}
    fit(comm, mean, 12, **how)
    for size in (12, 3):
        with pytest.raises(UsageError, match="the objective contrasting is taken for a mean over"):
            fit(comm, contrasting, size, **how)
