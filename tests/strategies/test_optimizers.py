"""Every optimizer, over every shape of a model, gives the weights of `single` when sliced."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import (
    ASGD,
    LBFGS,
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Rprop,
)
from torch.optim.lr_scheduler import ExponentialLR

from phalanx import data
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.train.pydtnn_optimizers import PyDTNNAdam, PyDTNNNadam, PyDTNNRMSProp, PyDTNNSGD
from phalanx.train.trainer import Trainer

MakeOptimizer = Callable[[Any], Optimizer]

OPTIMIZERS: dict[str, MakeOptimizer] = {
    "sgd": lambda p: SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: SGD(p, lr=0.05, momentum=0.9, nesterov=True, fused=True),
    "adam": lambda p: Adam(p, lr=0.002, amsgrad=True),
    "adam fused": lambda p: Adam(p, lr=0.002, fused=True),
    "adamw": lambda p: AdamW(p, lr=0.002),
    "nadam": lambda p: NAdam(p, lr=0.002),
    "radam": lambda p: RAdam(p, lr=0.002),
    "rmsprop": lambda p: RMSprop(p, lr=0.001, momentum=0.5, centered=True),
    "adagrad": lambda p: Adagrad(p, lr=0.01),
    "adadelta": Adadelta,
    "adamax": lambda p: Adamax(p, lr=0.002),
    "asgd": lambda p: ASGD(p, lr=0.05),
    "rprop": lambda p: Rprop(p, lr=0.001),
    "pydtnn sgd": lambda p: PyDTNNSGD(p, lr=0.05, decay=0.01, nesterov=True),
    "pydtnn rmsprop": lambda p: PyDTNNRMSProp(p, lr=0.001),
    "pydtnn adam": lambda p: PyDTNNAdam(p, lr=0.002, decay=0.01),
    "pydtnn nadam": lambda p: PyDTNNNadam(p, lr=0.002),
}


def split() -> Split:
    return data.load("digits").train.subset(torch.arange(77))


class Net(nn.Module):
    """Tied weights, a frozen layer, and a branch that only some steps use."""

    def __init__(self, *, branch: str = "never") -> None:
        super().__init__()
        self.first = nn.Linear(64, 20)
        self.tied = nn.Linear(20, 20)
        self.again = nn.Linear(20, 20)
        self.again.weight = self.tied.weight
        self.frozen = nn.Linear(20, 20).requires_grad_(False)
        self.branch = nn.Linear(20, 20)
        self.never = nn.Linear(3, 3)
        self.last = nn.Linear(20, 10)
        self.steps = 0
        self.branches = branch

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(inputs.flatten(1)))
        hidden = torch.tanh(self.again(torch.tanh(self.tied(hidden))))
        self.steps += 1
        by_step = self.branches == "by step" and self.steps % 3 == 0
        by_data = self.branches == "by data" and int(inputs.sum() * 16) % 2 == 0
        if by_step or by_data:
            hidden = hidden + self.branch(hidden)
        return self.last(self.frozen(hidden))  # type: ignore[no-any-return]


def train(
    comm: Communicator,
    strategy: str,
    make: MakeOptimizer,
    *,
    branch: str = "never",
    grouped: bool = False,
    **options: Any,
) -> list[Tensor]:
    torch.manual_seed(4)
    model = Net(branch=branch).double()
    parameters: Any = [p for p in model.parameters() if p.requires_grad]
    if grouped:
        parameters = [
            {"params": parameters[1::2]},
            {"params": parameters[:2:2], "lr": 0.003, "weight_decay": 0.1},
            {"params": parameters[2::2], "lr": 0.004},
        ]
    optimizer = make(parameters)
    schedule = ExponentialLR(optimizer, 0.5)
    trainer = Trainer(model, optimizer, strategy=strategy, comm=comm, seed=5, **options)
    for _ in range(2):
        trainer.fit(split(), epochs=1, batch_size=12)
        schedule.step()
    trainer.sync()
    return [tensor.detach().clone() for tensor in model.state_dict().values()]


def assert_equal(comm: Communicator, make: MakeOptimizer, **options: Any) -> None:
    alone = train(SingleCommunicator(), "single", make, **options)
    for strategy in ("central", "allreduce"):
        parallel = train(comm, strategy, make, **options)
        for one, other in zip(parallel, alone, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


# In float64 a wrong update stands out, and an optimizer's amplified rounding does not.
@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(comm: Communicator, name: str) -> None:
    assert_equal(comm, OPTIMIZERS[name])


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("name", ["sgd", "adam", "adam fused"])
@pytest.mark.parametrize(
    "options",
    [
        {"grouped": True},
        {"branch": "by step"},  # parameters without gradient in some steps
        {"clip_norm": 0.3},
        {"accumulate": 3},
        {"branch": "by data", "shards": 3},
    ],
    ids=["groups", "unused", "clipping", "accumulation", "unused in shards"],
)
def test_every_shape(comm: Communicator, name: str, options: dict[str, Any]) -> None:
    assert_equal(comm, OPTIMIZERS[name], **options)


@pytest.mark.ranks(2)
def test_an_optimizer_with_a_past_goes_on_from_there(comm: Communicator) -> None:
    def make(parameters: Any) -> Optimizer:
        optimizer = Adam(parameters, lr=0.002)
        for parameter in parameters:
            generator = torch.Generator().manual_seed(parameter.numel())
            parameter.grad = torch.randn(parameter.shape, generator=generator).double()
        optimizer.step()
        optimizer.zero_grad()
        return optimizer

    assert_equal(comm, make)


@pytest.mark.ranks(2)
def test_what_cannot_be_sliced_is_refused_by_central_and_taken_by_allreduce(
    comm: Communicator,
) -> None:
    class Mine(SGD):
        pass

    model = nn.Linear(64, 10)
    for optimizer in (LBFGS(model.parameters()), Mine(model.parameters())):
        with pytest.raises(UsageError, match=r"'single' and 'allreduce' take every optimizer"):
            Trainer(model, optimizer, strategy="central", comm=comm)
    Trainer(model, Mine(model.parameters(), lr=0.1), comm=comm)  # by default what fits


def test_bad_options_are_refused() -> None:
    model = nn.Linear(64, 10)
    for options in ({"shards": 0}, {"accumulate": 0}, {"clip_norm": 0.0}):
        with pytest.raises(UsageError, match="must be"):
            Trainer(model, SGD(model.parameters(), lr=0.1), **options)


def stepped(model: nn.Module, make: MakeOptimizer) -> Optimizer:
    """An optimizer with a state, in plain torch."""
    optimizer = make([p for p in model.parameters() if p.requires_grad])
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(2, 64, dtype=torch.float64)).square().sum().backward()
        optimizer.step()
    return optimizer


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_state_goes_in_and_out(comm: Communicator, kind: str) -> None:
    """A state that is loaded is gone on from, and the one afterwards is that of `single`."""
    make = OPTIMIZERS[kind]
    torch.manual_seed(6)
    saved = stepped(Net().double(), make).state_dict()
    states = []
    for strategy, where in (("central", comm), ("single", SingleCommunicator())):
        torch.manual_seed(7)
        model = Net().double()
        optimizer = make([p for p in model.parameters() if p.requires_grad])
        trainer = Trainer(model, optimizer, strategy=strategy, comm=where, seed=5)
        optimizer.load_state_dict(saved)
        for _ in range(2):
            trainer.fit(split(), epochs=1, batch_size=12)
            trainer.gather_optimizer_state()
        states.append(optimizer.state_dict()["state"])
    mine, alone = states
    assert mine.keys() == alone.keys() != set()
    for index, expected in alone.items():
        torch.testing.assert_close(mine[index], expected, rtol=0, atol=1e-9)


@pytest.mark.ranks(2)
def test_state_in_pieces_is_not_given_away_as_whole(comm: Communicator) -> None:
    model = Net().double()
    optimizer = Adam([p for p in model.parameters() if p.requires_grad])
    trainer = Trainer(model, optimizer, strategy="central", comm=comm)
    trainer.fit(split(), epochs=1, batch_size=12)
    with pytest.raises(UsageError, match=r"call gather_optimizer_state"):
        optimizer.state_dict()
    with pytest.raises(UsageError, match=r"call gather_optimizer_state"):
        Trainer(model, optimizer, strategy="allreduce", comm=comm)
    trainer.gather_optimizer_state()
    Trainer(model, optimizer, strategy="allreduce", comm=comm)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("strategy", ["central", "allreduce", "server"])
def test_parameters_that_change_after_the_start_are_refused(
    comm: Communicator, strategy: str
) -> None:
    model = Net().double()
    optimizer = SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    trainer = Trainer(model, optimizer, strategy=strategy, comm=comm)
    trainer.fit(split(), epochs=1, batch_size=12)
    model.frozen.requires_grad_(True)
    with pytest.raises(UsageError, match="since this Trainer was made: make a new one"):
        trainer.fit(split(), epochs=1, batch_size=12)
    stranger = SGD([*model.parameters(), nn.Parameter(torch.ones(1))], lr=0.1)
    with pytest.raises(UsageError, match="a parameter that is not the model's"):
        Trainer(model, stranger, strategy=strategy, comm=comm)


def test_gradients_that_nobody_steps_with_do_not_add_up() -> None:
    """They count in the norm that gradients are clipped by: the step's own, not all steps'."""
    torch.manual_seed(6)
    first, last = nn.Linear(64, 8), nn.Linear(8, 10)
    optimizer = SGD(last.parameters(), lr=0.1)
    model = nn.Sequential(nn.Flatten(), first, last)
    trainer = Trainer(model, optimizer, comm=SingleCommunicator(), clip_norm=0.1)
    norms = []
    for _ in range(3):
        trainer.fit(split(), epochs=1, batch_size=77)
        assert first.weight.grad is not None
        norms.append(first.weight.grad.norm().item())
    assert norms == pytest.approx([norms[0]] * 3, rel=0.2)
