"""Trainings that are interrupted and go on from the files they left, as if nobody had."""

import random
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from phalanx import Strategy, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.central import Central
from phalanx.strategies.gather import Gather
from phalanx.strategies.local.strategy import Local
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.strategies.server import Server
from phalanx.strategies.single import Single
from phalanx.strategies.tensor.strategy import Tensor as TensorParallel
from phalanx.train.checkpointing import Checkpoints
from tests.state.test_moving import INTERRUPTED, SHARDS, STEPS, first_ranks, make_trainer
from tests.strategies.test_parity import make_split

#: Seven epochs of three steps.
LONG = 21
#: Who goes on after each interruption, one after the other; the first one begins.
TURNS: list[tuple[Strategy, int]] = [
    (Central(), 3),
    (Single(), 1),
    (Allreduce(), 4),
    (Central(), 2),
    (Allreduce(), 3),
    (Single(), 1),
    (Central(), 4),
    (Allreduce(), 2),
    (Central(), 1),
    (Allreduce(), 3),
    (Central(), 2),
]


def fit(trainer: Trainer, steps: int, folder: Path | None = None) -> dict[str, Tensor]:
    """Collective. Train so many steps, with a checkpoint where that ends; then it is closed."""
    checkpoint = None if folder is None else Checkpoints(folder, every="never", keep=2)
    trainer.fit(make_split(41), epochs=9, batch_size=16, steps=steps, checkpoint=checkpoint)
    trainer.close()
    return {name: one.clone() for name, one in trainer.model.state_dict().items()}


def turn(
    comm: Communicator, who: tuple[Strategy, int], steps: int, folder: Path, *, shards: int | None
) -> dict[str, Tensor] | None:
    """Collective. Some of the ranks go on from the folder, if it has anything; None elsewhere."""
    strategy, count = who
    some = first_ranks(comm, count)
    weights = None
    if some is not None:
        trainer = make_trainer(some, strategy, optimizer="adam", shards=shards)
        if folder.exists():
            trainer.load(folder)
        weights = fit(trainer, steps, folder)
        some.free()
    comm.barrier()
    return weights


@cache
def undisturbed(steps: int, shards: int | None = None) -> dict[str, Tensor]:
    alone = SingleCommunicator()
    return fit(make_trainer(alone, Single(), optimizer="adam", shards=shards), steps)


@pytest.mark.ranks(4)
def test_ten_interruptions_leave_no_trace(comm: Communicator, shared_path: Path) -> None:
    """Each time other ranks go on, with another strategy: the same bits as undisturbed."""
    places = sorted(random.Random(8).sample(range(1, LONG), len(TURNS) - 1))
    lengths = [end - begin for begin, end in zip([0, *places], [*places, LONG], strict=True)]
    weights = None
    for who, steps in zip(TURNS, lengths, strict=True):
        weights = turn(comm, who, steps, shared_path / "kept", shards=SHARDS)
    if weights is None:
        return
    for name, one in undisturbed(LONG, SHARDS).items():
        assert torch.equal(weights[name], one), name


@pytest.mark.ranks(3)
@pytest.mark.parametrize(
    "strategy",
    [Server(), Server(exchange="changes"), Gather(), Local(every=3), Pipeline(), TensorParallel()],
    ids=str,
)
def test_the_same_strategy_goes_on(
    comm: Communicator, shared_path: Path, strategy: Strategy
) -> None:
    """Also what is never the same as on one rank: it is as if nobody had interrupted it."""
    whole = fit(make_trainer(comm, strategy, optimizer="sgd"), STEPS)
    fit(make_trainer(comm, strategy, optimizer="sgd"), INTERRUPTED, shared_path / "kept")
    again = make_trainer(comm, strategy, optimizer="sgd")
    again.load(shared_path / "kept")
    for name, one in fit(again, STEPS - INTERRUPTED).items():
        torch.testing.assert_close(one, whole[name], rtol=1e-5, atol=1e-5)


@pytest.mark.ranks(3)
def test_across_all_kinds_of_parallelism(comm: Communicator, shared_path: Path) -> None:
    weights = None
    ways: list[tuple[Strategy, int]] = [
        (Pipeline(), 3),
        (Central(), 2),
        (TensorParallel(), 3),
        (Single(), 1),
    ]
    for who in ways:
        weights = turn(comm, who, 4, shared_path / "kept", shards=None)
    if weights is None:
        return
    for name, one in undisturbed(4 * len(ways)).items():
        torch.testing.assert_close(weights[name], one, rtol=1e-4, atol=1e-4)
