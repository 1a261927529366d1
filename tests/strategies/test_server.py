"""`server`: the weights of `single`, from gradients or from changes of weights."""

import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import StepLR

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.strategies.base import Loss, Task
from phalanx.strategies.server import Server
from phalanx.strategies.single import Single
from phalanx.train.optimizers import without_compiler
from phalanx.train.trainer import Trainer
from tests.strategies.server_cases import (
    CASES,
    assert_equals_single,
    make_model,
    make_split,
    sharded_digest,
    train,
    two_groups,
)


@pytest.mark.ranks(2, 3, 4)
@pytest.mark.parametrize("case", CASES)
def test_equals_single(comm: Communicator, case: str) -> None:
    assert_equals_single(comm, Server(), case)


@pytest.mark.ranks(2, 4)
@pytest.mark.parametrize("shards", [2, 4])
def test_fixed_shards_give_the_same_bits(comm: Communicator, shards: int) -> None:
    """With 2 shards on 4 ranks one worker has none."""
    digests = comm.allgather_objects(sharded_digest(comm, Server(), shards=shards))
    assert set(digests) == {sharded_digest(SingleCommunicator(), Single(), shards=shards)}


@pytest.mark.ranks(3)
@pytest.mark.parametrize(
    "options",
    [{}, {"nesterov": True}, {"dampening": 0.5}],
    ids=["momentum", "nesterov", "dampening"],
)
@pytest.mark.parametrize("batch_size", [13, 1])  # of one sample, all workers but one have none
def test_changes_equal_gradients(
    comm: Communicator, options: dict[str, Any], batch_size: int
) -> None:
    results = []
    for strategy in (Server(), Server(exchange="changes")):
        model = make_model("odd")
        optimizer = two_groups(model, **options)
        settings = {"batch_size": batch_size, "accumulate": 2}
        results.append(train(comm, strategy, model, optimizer, **settings)[0])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.ranks(3)
def test_changes_go_on_from_a_momentum(comm: Communicator) -> None:
    def resumed(comm: Communicator, strategy: Any) -> list[torch.Tensor]:
        model = make_model("mlp")
        optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
        for parameter in model.parameters():
            optimizer.state[parameter]["momentum_buffer"] = torch.full_like(parameter, 0.01)
        return train(comm, strategy, model, optimizer, batch_size=13)[0]

    changed = resumed(comm, Server(exchange="changes"))
    for one, other in zip(changed, resumed(SingleCommunicator(), Single()), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.ranks(3)
def test_a_momentum_keeps_its_bits(comm: Communicator) -> None:
    """Negative zeros as well, which a sum with zeros would lose."""
    model = make_model("mlp")
    optimizer = SGD(model.parameters(), lr=0.05, momentum=0.9)
    for parameter in model.parameters():
        optimizer.state[parameter]["momentum_buffer"] = torch.full_like(parameter, -0.0)
    with Trainer(model, optimizer, strategy=Server(exchange="changes"), comm=comm) as trainer:
        state = trainer.state()
    kept = dict(state.under("optimizer/"))
    assert len(kept) == len(list(model.parameters()))
    assert all(torch.signbit(one).all() for one in kept.values())


@pytest.mark.ranks(3)
def test_rank_0_has_the_only_state_and_does_not_train(comm: Communicator) -> None:
    model = make_model("mlp")
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    optimizer = Adam(model.parameters(), lr=0.01)
    trainer = Trainer(model, optimizer, strategy=Server(), comm=comm)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    trainer.fit(make_split(), epochs=1, batch_size=13)
    scheduler.step()  # warns, and so fails, if it thinks that the optimizer was never stepped
    assert trainer.worker.trains == (comm.rank > 0)
    assert bool(calls) == (comm.rank > 0)
    assert bool(optimizer.state) == (comm.rank == 0)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("exchange", ["gradients", "changes"])
def test_statistics_are_the_mean_of_the_workers(comm: Communicator, exchange: Any) -> None:
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))
    optimizer = SGD(model.parameters(), lr=0.01)
    trainer = Trainer(model, optimizer, strategy=Server(exchange=exchange), comm=comm)
    trainer.fit(make_split().subset(torch.arange(40)), epochs=1, batch_size=20)
    statistics = model[1]
    assert isinstance(statistics, nn.BatchNorm1d)
    assert statistics.running_mean is not None
    assert statistics.num_batches_tracked is not None
    before = comm.allgather_objects(statistics.running_mean.clone())
    trainer.sync()
    torch.testing.assert_close(statistics.running_mean, (before[1] + before[2]) / 2)
    assert int(statistics.num_batches_tracked) == 2


def task(optimizer: type[Optimizer] = SGD, **options: Any) -> Task:
    model = make_model("mlp")
    settings = {name: options.pop(name) for name in ("weight_decay",) if name in options}
    made: Any = optimizer
    return Task(model, made(model.parameters(), lr=0.1, **settings), Loss(nn.MSELoss()), **options)


@pytest.mark.ranks(2)
def test_changes_refuse_what_is_not_linear(comm: Communicator) -> None:
    strategy = Server(exchange="changes")
    for refused, why in (
        (task(Adam), "linear in the gradient, as SGD is and Adam need not be"),
        (task(weight_decay=0.1), "leave out weight_decay"),
        (task(clip_norm=1.0), "clip_norm"),
        (task(shards=2), "leave out the shards"),
    ):
        with pytest.raises(UsageError, match=why) as raised:
            strategy.bind(comm, refused)
        assert "exchange 'gradients'" in str(raised.value)


class TwiceSGD(SGD):
    """Another step, which nobody says is linear."""

    def step(self, closure: Any = None) -> Any:
        super().step(closure)
        return super().step(closure)


@pytest.mark.ranks(2)
def test_changes_take_the_optimizer_of_the_command_line(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as here:  # as in a process that has not loaded torch's compiler
        here.delitem(sys.modules, "torch._dynamo", raising=False)
        made = without_compiler.__wrapped__(SGD)
    assert made is not SGD
    Server(exchange="changes").bind(comm, task(made)).close()
    with pytest.raises(UsageError, match="TwiceSGD need not be"):
        Server(exchange="changes").bind(comm, task(TwiceSGD))


def test_refuses_one_rank_and_unknown_exchanges() -> None:
    with pytest.raises(UsageError, match="'server' needs 2 ranks or more"):
        Server().bind(SingleCommunicator(), task())
    with pytest.raises(UsageError, match="changes"):
        Server(exchange="change")  # type: ignore[arg-type]
