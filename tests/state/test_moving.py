"""A training goes on from its state with another strategy, on another number of ranks.

A job of four ranks trains k steps on some of them, and the rest on others, in new Trainers whose
models and optimizers have never seen a step. What it ends with is compared with a training that
nobody interrupted.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from phalanx import State, Strategy, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.settings.table import Settings
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.asynchronous.strategy import Asynchronous
from phalanx.strategies.central import Central
from phalanx.strategies.gather import Gather
from phalanx.strategies.local.strategy import Local
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.strategies.server import Server
from phalanx.strategies.single import Single
from phalanx.strategies.tensor.strategy import Tensor as TensorParallel
from phalanx.train.companions.schedules import Schedule
from phalanx.train.companions.stopping import Stopping
from tests.strategies.test_parity import make_normalised, make_split

STEPS = 7
#: In the middle of the second epoch: 41 samples are three batches of 16.
INTERRUPTED = 4
SHARDS = 6

#: Strategies that give the weights of `single`, with the ranks to use them on.
STRATEGIES: dict[str, tuple[Strategy, int]] = {
    "single": (Single(), 1),
    "allreduce": (Allreduce(), 3),
    "overlap": (Allreduce(overlap=True, bucket_bytes=1024), 2),
    "central": (Central(), 2),
    "server": (Server(), 3),
    "server of changes": (Server(exchange="changes"), 3),
    "gather": (Gather(), 2),
    "async": (Asynchronous(), 2),  # with one worker nothing is stale
    "async in step": (Asynchronous(max_staleness=0), 3),
    "local": (Local(every=1), 3),
    "pipeline": (Pipeline(), 3),
    "pipelines": (Pipeline(replicas=2), 4),
    "tensor": (TensorParallel(), 2),
    "tensors": (TensorParallel(replicas=2), 4),
}
LINEAR = ("server of changes", "local")
OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda parameters: SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: Adam(parameters, lr=0.003),
}


def make_model(*, normalised: bool) -> nn.Module:
    torch.manual_seed(5)
    if normalised:
        return make_normalised()
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 10)
    )


def make_trainer(
    comm: Communicator, strategy: Strategy, *, optimizer: str, shards: int | None = None
) -> Trainer:
    model = make_model(normalised=shards is not None)
    made = OPTIMIZERS[optimizer](model.parameters())
    return Trainer(model, made, strategy=strategy, comm=comm, seed=2, shards=shards)


def fit(trainer: Trainer, steps: int) -> dict[str, Tensor]:
    """Train so many steps; the weights and buffers afterwards, and the trainer is closed."""
    trainer.fit(make_split(41), epochs=9, batch_size=16, steps=steps)
    trainer.close()
    return {name: one.clone() for name, one in trainer.model.state_dict().items()}


@cache
def uninterrupted(optimizer: str, shards: int | None = None) -> dict[str, Tensor]:
    alone = SingleCommunicator()
    return fit(make_trainer(alone, Single(), optimizer=optimizer, shards=shards), STEPS)


def first_ranks(comm: Communicator, count: int) -> Communicator | None:
    """Collective. A communicator of the first so many ranks; None for the others."""
    part = comm.split(int(comm.rank >= count), comm.rank)
    if comm.rank < count:
        return part
    part.free()
    return None


def interrupted(
    comm: Communicator,
    before: tuple[Strategy, int],
    after: tuple[Strategy, int],
    *,
    optimizer: str,
    shards: int | None = None,
) -> dict[str, Tensor] | None:
    """Collective. Train with one strategy, go on with another; None on ranks that do not."""
    state: State | None = None
    some = first_ranks(comm, before[1])
    if some is not None:
        with make_trainer(some, before[0], optimizer=optimizer, shards=shards) as trainer:
            trainer.fit(make_split(41), epochs=9, batch_size=16, steps=INTERRUPTED)
            state = trainer.state()
            trainer.fit(make_split(41), epochs=9, batch_size=16, steps=1)  # the state must not care
        some.free()
    state = comm.broadcast_object(state)
    assert state is not None
    others = first_ranks(comm, after[1])
    if others is None:
        return None
    trainer = make_trainer(others, after[0], optimizer=optimizer, shards=shards)
    trainer.load(state)
    weights = fit(trainer, STEPS - INTERRUPTED)
    others.free()
    return weights


def next_strategy(name: str) -> str:
    """Each strategy hands over to another one, so that every one loads the state of some other."""
    names = list(STRATEGIES)
    return names[(names.index(name) + 5) % len(names)]


@pytest.mark.ranks(4)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_state_moves(comm: Communicator, name: str, optimizer: str) -> None:
    other = next_strategy(name)
    if optimizer == "adam" and (name in LINEAR or other in LINEAR):
        pytest.skip("equals single only where steps are linear in the gradient")
    found = interrupted(comm, STRATEGIES[name], STRATEGIES[other], optimizer=optimizer)
    if found is not None:
        for key, value in uninterrupted(optimizer).items():
            torch.testing.assert_close(found[key], value, rtol=1e-5, atol=1e-5)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("single", "central"),
        ("central", "allreduce"),
        ("allreduce", "central"),
        ("central", "single"),
        ("gather", "central"),
        ("central", "gather"),
        ("server", "allreduce"),
        ("central", "server"),
    ],
)
def test_with_shards_to_the_last_bit(
    comm: Communicator, name: str, other: str, optimizer: str
) -> None:
    """BatchNorm, dropout and all."""
    before, after = STRATEGIES[name], STRATEGIES[other]
    found = interrupted(comm, before, after, optimizer=optimizer, shards=SHARDS)
    if found is not None:
        for key, value in uninterrupted(optimizer, SHARDS).items():
            assert torch.equal(found[key], value), key


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    "strategy",
    [
        Local(every=3),
        Local(every=3, outer_momentum=0.5),
        Local(every=3, outer_momentum=0.5, pieces=2, compress="int8"),
        Allreduce(compress="bf16"),
        Allreduce(compress="fp16", overlap=True, bucket_bytes=512),
        Allreduce(compress="int8"),
        Allreduce(compress="low-rank", overlap=True, bucket_bytes=512),
    ],
    ids=str,
)
def test_ranks_of_their_own_go_on_as_they_were(comm: Communicator, strategy: Strategy) -> None:
    """What a rank has of its own a state keeps: weights between two averages, lost roundings."""
    whole = fit(make_trainer(comm, strategy, optimizer="adam"), STEPS)
    trainer = make_trainer(comm, strategy, optimizer="adam")
    trainer.fit(make_split(41), epochs=9, batch_size=16, steps=INTERRUPTED)
    state = trainer.state()
    trainer.close()
    again = make_trainer(comm, strategy, optimizer="adam")
    again.load(state)
    for name, value in fit(again, STEPS - INTERRUPTED).items():
        torch.testing.assert_close(value, whole[name], rtol=1e-5, atol=1e-5)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("pieces", [1, 3])
def test_a_piece_in_flight_moves_to_other_ranks(comm: Communicator, pieces: int) -> None:
    """An outer step by the mean way leaves the mean of all weights where it is."""
    trainer = make_trainer(comm, Local(every=3, pieces=2), optimizer="adam")
    trainer.fit(make_split(41), epochs=9, batch_size=16, steps=INTERRUPTED)
    state = trainer.state()
    trainer.close()
    assert state.values["piece in flight"] == [0, 2]
    alone = SingleCommunicator()
    other = make_trainer(alone, Local(every=3, pieces=pieces, outer_momentum=0.5), optimizer="adam")
    other.load(state)
    other.close()
    for name, one in other.model.named_parameters():
        mean = state.tensor(f"parameters/{name}")
        torch.testing.assert_close(one.detach(), mean, rtol=0, atol=1e-6)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("compress", ["fp16", "low-rank"])
def test_lost_roundings_move_to_other_ranks(comm: Communicator, compress: str) -> None:
    """Exactly as much is still to be added, whoever adds it."""
    some = first_ranks(comm, 3)
    state: State | None = None
    if some is not None:
        trainer = make_trainer(some, Allreduce(compress=compress), optimizer="sgd")
        trainer.fit(make_split(41), epochs=9, batch_size=16, steps=INTERRUPTED)
        state = trainer.state()
        trainer.close()
        some.free()
    state = comm.broadcast_object(state)
    assert state is not None
    trainer = make_trainer(comm, Allreduce(compress=compress), optimizer="sgd")
    trainer.load(state)
    again = trainer.state()
    trainer.close()
    before, after = (one.tensor("strategy/error feedback/1.weight") for one in (state, again))
    assert before.abs().max() > 0
    torch.testing.assert_close(after, before, rtol=0, atol=1e-9)


@pytest.mark.ranks(3)
def test_a_trainer_changes_its_strategy_and_its_ranks(comm: Communicator) -> None:
    """And goes on, with the same model and optimizer."""
    trainer = make_trainer(comm, Central(), optimizer="adam", shards=SHARDS)
    split = make_split(41)
    trainer.fit(split, epochs=9, batch_size=16, steps=2)
    trainer.rebind(Allreduce())
    trainer.fit(split, epochs=9, batch_size=16, steps=2)
    fewer = comm.split(0, -comm.rank)
    trainer.rebind(Central(), comm=fewer)
    found = fit(trainer, STEPS - 4)
    fewer.free()
    for key, value in uninterrupted("adam", SHARDS).items():
        assert torch.equal(found[key], value), key


@pytest.mark.ranks(2)
def test_what_goes_along_is_a_part_of_the_state_at_any_time(comm: Communicator) -> None:
    """Also between a load and the next fit, on other ranks and with another strategy."""
    settings = Settings(warm_up=2.0, schedule="cosine", epochs=9)

    def go_on(trainer: Trainer, epochs: int) -> list[float]:
        schedule = Schedule(trainer.optimizer, settings, steps_per_epoch=3)
        stopping = Stopping(patience=9)
        found = trainer.fit(
            make_split(41),
            epochs=epochs,
            batch_size=16,
            validation=make_split(8),
            schedule=schedule,
            stopping=stopping,
            keep_best=True,
        )
        return [epoch.learning_rate for epoch in found]

    whole = make_trainer(comm, Central(), optimizer="sgd", shards=SHARDS)
    rates = go_on(whole, 5)
    wanted = whole.state()

    first = make_trainer(comm, Central(), optimizer="sgd", shards=SHARDS)
    assert go_on(first, 2) == rates[:2]
    before = first.state()
    assert {"best", "schedule", "stopping"} <= before.values.keys()
    second = make_trainer(comm, Allreduce(), optimizer="sgd", shards=SHARDS)
    second.load(before)
    second.rebind(Central())
    between = second.state()
    assert between.values == before.values
    assert sorted(between.tensors) == sorted(before.tensors)
    third = make_trainer(comm, Allreduce(), optimizer="sgd", shards=SHARDS)
    third.load(between)
    assert go_on(third, 3) == rates[2:]
    found = third.state()
    for name in wanted.tensors:
        assert torch.equal(found.tensor(name), wanted.tensor(name)), name
    assert found.values["best"] == wanted.values["best"]
    for one in (whole, first, second, third):
        one.close()
