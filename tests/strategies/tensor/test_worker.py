"""What `tensor` does to a model, an optimizer and the wires while it trains."""

import copy
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adam, Optimizer

from phalanx import data
from phalanx.comm.base import Communicator
from phalanx.comm.counted import CountedCommunicator, Traffic
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import Batch
from phalanx.errors import UsageError
from phalanx.strategies.base import Loss, Task, Worker
from phalanx.strategies.tensor.strategy import Tensor as TensorStrategy

SAMPLES = 12


def batch(start: int = 0) -> Batch:
    return Batch(data.load("digits").train, torch.arange(start, start + SAMPLES))


def bind(
    comm: Communicator, model: nn.Module, optimizer: Optimizer | None = None, **options: Any
) -> Worker:
    optimizer = optimizer or SGD(model.parameters(), lr=0.1, momentum=0.9)
    return TensorStrategy().bind(comm, Task(model, optimizer, Loss(F.cross_entropy), **options))


def mlp(*widths: int) -> nn.Sequential:
    torch.manual_seed(3)
    layers: list[nn.Module] = [nn.Flatten()]
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@pytest.mark.ranks(2, 4)
def test_a_rank_holds_its_share(comm: Communicator) -> None:
    model = mlp(64, 512, 64, 512, 10)
    optimizer = Adam(model.parameters())
    whole = sum(parameter.nbytes for parameter in model.parameters())
    worker = bind(comm, model, optimizer)
    worker.step(batch())
    state = [
        value
        for parameter in model.parameters()
        for value in optimizer.state[parameter].values()
        if value.dim() > 0
    ]
    held = sum(tensor.nbytes for tensor in [*model.parameters(), *state])
    assert held == pytest.approx(3 * whole / comm.size, rel=0.01)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert sum(one.nbytes for one in gradients) == pytest.approx(whole / comm.size, rel=0.01)


@pytest.mark.ranks(2, 3)
def test_a_pair_meets_once_forward_and_once_backward(comm: Communicator) -> None:
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 20),  # too small to be split, and trained, so that gradients come here
        nn.LayerNorm(20),
        nn.Linear(20, 40),
        nn.BatchNorm1d(40),
        nn.ReLU(),
        nn.Linear(40, 10),
    )
    traffic = Traffic()
    worker = bind(CountedCommunicator(comm, traffic), model)
    before = traffic.bytes
    worker.step(batch())
    outputs, inputs = SAMPLES * 10, SAMPLES * 20
    assert traffic.bytes - before == 4 * (outputs + inputs)


@pytest.mark.ranks(2)
def test_the_first_layer_sends_no_gradient_back(comm: Communicator) -> None:
    traffic = Traffic()
    worker = bind(CountedCommunicator(comm, traffic), mlp(64, 40, 10))
    before = traffic.bytes
    worker.step(batch())
    assert traffic.bytes - before == 4 * SAMPLES * 10


@pytest.mark.ranks(3)
def test_objects_stay_and_the_model_is_whole_after_sync(comm: Communicator) -> None:
    model = mlp(64, 40, 10)
    parameters = dict(model.named_parameters())
    shapes = {name: parameter.shape for name, parameter in parameters.items()}
    inputs, _ = batch().whole()
    outputs = model(inputs)  # its graph is kept over the steps, and with it the old shapes
    worker = bind(comm, model)
    assert model[1].weight.shape == (40, 64)  # whole until the first step
    torch.testing.assert_close(model(inputs), outputs)
    for step in range(3):
        outcome = worker.step(batch(step))
        assert (outcome.outputs is not None) == (comm.rank == 0)
        assert model[1].weight.shape == ((14, 64) if comm.rank == 0 else (13, 64))
        worker.sync()
        worker.sync()
        assert {name: one.shape for name, one in model.named_parameters()} == shapes
        assert all(one is parameters[name] for name, one in model.named_parameters())
        assert not any("forward" in vars(module) for module in model.modules())
    del outputs


@pytest.mark.ranks(2)
@pytest.mark.parametrize("assign", [False, True])
def test_weights_loaded_between_steps_count(comm: Communicator, assign: bool) -> None:
    model, other = mlp(64, 40, 10), mlp(64, 40, 10)
    worker = bind(comm, model, SGD(model.parameters(), lr=0.1))
    worker.step(batch(5))
    worker.sync()
    torch.manual_seed(9)
    nn.init.normal_(next(other.parameters()))
    model.load_state_dict(copy.deepcopy(other.state_dict()), assign=assign)
    worker.step(batch())
    worker.sync()
    inputs, targets = batch().whole()
    optimizer = SGD(other.parameters(), lr=0.1)
    F.cross_entropy(other(inputs), targets).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    for mine, expected in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=0, atol=1e-5)


@pytest.mark.ranks(2)
def test_an_optimizer_that_has_state(comm: Communicator) -> None:
    model = mlp(64, 40, 10)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    inputs, targets = batch().whole()
    F.cross_entropy(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    reference, other = copy.deepcopy((model, optimizer))
    worker = bind(comm, model, optimizer)
    worker.step(batch(20))
    worker.sync()
    alone = TensorStrategy().bind(
        SingleCommunicator(), Task(reference, other, Loss(F.cross_entropy))
    )
    alone.step(batch(20))
    for mine, expected in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=0, atol=1e-5)


class Moody(nn.Module):
    """Leaves out a layer when told to, which tracing cannot foresee."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 40)
        self.second = nn.Linear(40, 40)
        self.third = nn.Linear(40, 10)
        self.skips = False

    def forward(self, inputs: Tensor) -> Tensor:
        features = torch.relu(self.first(inputs.flatten(1)))
        if self.skips:
            return features[:, :10]
        outputs: Tensor = self.third(self.second(features).softmax(1))
        return outputs


@pytest.mark.ranks(2)
def test_a_model_that_changes_its_way_is_refused(comm: Communicator) -> None:
    model = Moody()
    worker = bind(comm, model)
    worker.step(batch())
    model.skips = True
    with pytest.raises(UsageError, match="'first' was called without 'second'"):
        worker.step(batch())


class Peeking(nn.Module):
    """Goes through a container by itself, and looks at what is between."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))

    def forward(self, inputs: Tensor) -> Tensor:
        features = inputs.flatten(1)
        for layer in self.layers:
            features = layer(features)
            assert bool(features.isfinite().all())
        return features


@pytest.mark.ranks(2)
def test_slices_that_a_model_would_look_at_are_refused(comm: Communicator) -> None:
    worker = bind(comm, Peeking())
    with pytest.raises(UsageError, match=r"'layers\.0' was called by itself"):
        worker.step(batch())


@pytest.mark.ranks(2)
def test_what_cannot_work_is_refused(comm: Communicator) -> None:
    model = mlp(64, 40, 10)
    with pytest.raises(UsageError, match="leave out compile"):
        bind(comm, model, compile=True)
    with pytest.raises(UsageError, match="'tensor' steps pieces of parameters, which LBFGS"):
        bind(comm, model, LBFGS(model.parameters()))
    task = Task(model, SGD(model.parameters(), lr=0.1), Loss(F.cross_entropy), shards=1)
    with pytest.raises(UsageError, match="take at least 2 shards"):
        TensorStrategy(replicas=2).bind(comm, task)


@pytest.mark.ranks(2)
def test_the_plan_is_the_same_on_every_rank(comm: Communicator) -> None:
    (table,) = bind(comm, mlp(64, 40, 10)).plan()
    assert table.rows[0] == ("1", "by output", "3", "40 = 20 + 20", "1,300")
    assert comm.allgather_objects(table) == [table] * comm.size
