"""The bytes that a strategy is said to send in a step are those that it sends."""

import pytest
import torch
from torch import nn
from torch.optim import SGD

from phalanx import data, models
from phalanx.comm.base import Communicator
from phalanx.comm.counted import CountedCommunicator, Traffic
from phalanx.data.batches import batches
from phalanx.errors import UsageError
from phalanx.observe.traffic import EVERY, FORMULAS, Workload, estimate
from phalanx.strategies.base import Task
from phalanx.strategies.registry import STRATEGIES, make
from phalanx.train.losses import make_loss

BATCH = 24
SHAPE = (1, 8, 8)
#: How far from the truth an estimate may be: only notes between ranks are not counted in advance.
TOLERANCE = {"async": 0.02, "pipeline": 0.0, "tensor": 0.0}


def make_model(name: str) -> nn.Module:
    torch.manual_seed(1)
    return models.build(name, input_shape=SHAPE, classes=10)


def sent_in_steps(comm: Communicator, strategy: str, model: nn.Module, *, steps: int) -> int:
    """Collective. What all ranks send in so many steps, what comes before and after aside."""
    traffic = Traffic()
    counted = CountedCommunicator(comm, traffic)
    task = Task(model, SGD(model.parameters(), lr=0.01), make_loss("cross-entropy"))
    worker = make(strategy).bind(counted, task)
    split = data.load("digits").train.subset(torch.arange((steps + 2) * BATCH))
    first, second, *others = batches(split, batch_size=BATCH, seed=3, epoch=0)
    worker.step(first)  # some strategies look at a first batch before they share out the model
    worker.sync()
    if strategy == "local":
        worker.step(second)  # which puts back what reading has changed
    before = traffic.bytes
    for batch in others[:steps]:
        worker.step(batch)
    sent = traffic.bytes - before
    worker.sync()
    return sum(comm.allgather_objects(sent))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("model", ["mlp", "simplecnn"])
@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "single"])
def test_estimates_are_what_is_sent(comm: Communicator, strategy: str, model: str) -> None:
    found = estimate(
        strategy, Workload(make_model(model), SHAPE, ranks=comm.size, batch_size=BATCH)
    )
    assert found is not None
    sent = sent_in_steps(comm, strategy, make_model(model), steps=EVERY) / EVERY
    if found.exact:
        assert found.least == sent == found.most
    else:
        margin = TOLERANCE[strategy] * sent
        assert found.least - margin <= sent <= found.most + margin


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_rank_alone_sends_nothing(strategy: str) -> None:
    found = estimate(strategy, Workload(make_model("mlp"), SHAPE, ranks=1, batch_size=BATCH))
    assert found is not None
    assert (found.least, found.most, found.exact) == (0, 0, True)


def test_a_gradient_is_rounded_up_and_marked() -> None:
    model = nn.Linear(64, 10)  # 640 weights fill a multiple of 64; 10 biases take 64
    workload = Workload(model, (64,), ranks=2, batch_size=5)
    assert workload.weights == 4 * (640 + 64)
    assert workload.gradient == workload.weights + 4 * 2
    assert workload.batch == 5 * (4 * 64 + 8)


def test_estimating_leaves_the_model_as_it_is() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Linear(32, 10))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for strategy in STRATEGIES:
        estimate(strategy, Workload(model, SHAPE, ranks=2, batch_size=BATCH))
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_model_that_a_strategy_refuses() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            flat = inputs.flatten(1)
            return torch.add(self.layer(flat), flat[:, :10])

    workload = Workload(Branching(), SHAPE, ranks=2, batch_size=BATCH)
    with pytest.raises(UsageError, match="pipeline"):
        estimate("pipeline", workload)
    assert estimate("file.py:Mine", workload) is None


def test_every_strategy_has_a_formula_and_defaults_agree() -> None:
    from phalanx.strategies.local.strategy import Local

    assert set(FORMULAS) == set(STRATEGIES)
    assert Local().every == EVERY
