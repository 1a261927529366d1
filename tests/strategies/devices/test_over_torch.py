"""Every strategy over torch.distributed, as between GPUs: with gloo and in CPU memory."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from phalanx import Split, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.strategies.base import Strategy
from phalanx.strategies.local.strategy import Local
from phalanx.strategies.registry import STRATEGIES, name_of
from phalanx.strategies.sharded_model import ShardedModel
from phalanx.strategies.single import Single
from tests.strategies import test_shards
from tests.strategies.server_cases import sharded_digest
from tests.strategies.test_parity import EXACT, assert_close, make_model, train, train_alone

TRIED: dict[str, Strategy] = EXACT | {"local": Local(every=1), "single": Single()}


def test_every_strategy_is_tried() -> None:
    assert {name_of(one) for one in TRIED.values()} == set(STRATEGIES)


def takes(strategy: Strategy, ranks: int) -> bool:
    entry = STRATEGIES[name_of(strategy)]
    return entry.least_ranks <= ranks <= (entry.most_ranks or ranks)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("strategy", TRIED)
def test_every_strategy_equals_single(over_gloo: Communicator, strategy: str) -> None:
    if not takes(TRIED[strategy], over_gloo.size):
        return
    for model, optimizer in (("deep mlp", "sgd"), ("simplecnn", "adam")):
        if strategy == "local" and optimizer == "adam":  # whose steps are not linear
            continue
        options: dict[str, Any] = {"optimizer": optimizer, "batch_size": 14}
        parallel = train(make_model(model), over_gloo, strategy=TRIED[strategy], **options)
        assert_close(parallel, train_alone(model, **options), 1e-5)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
@pytest.mark.parametrize("options", test_shards.OPTIONS, ids=["plain", "clipped", "adamw"])
def test_the_same_bits_with_shards(
    over_gloo: Communicator, strategy: str, options: dict[str, Any]
) -> None:
    digest = test_shards.train(over_gloo, strategy, **options)
    assert set(over_gloo.allgather_objects(digest)) == {test_shards.train_alone(**options)}


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", ["server", "gather", "async in step"])
def test_the_same_bits_with_shards_by_a_server(over_gloo: Communicator, strategy: str) -> None:
    digest = sharded_digest(over_gloo, EXACT[strategy], shards=4)
    assert digest == sharded_digest(SingleCommunicator(), Single(), shards=4)


def make_trainer(comm: Communicator, strategy: str, width: int = 130) -> Trainer:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return Trainer(model, optimizer, comm=comm, strategy=strategy, clip_norm=0.5)


SAMPLES = Split(
    torch.randn(16, 3, generator=torch.Generator().manual_seed(3)), torch.arange(16) % 2
)


@pytest.mark.ranks(2, 3)
def test_central_keeps_a_slice_of_the_optimizer_and_shares_no_memory(
    over_gloo: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.strategies.central.SharedMemory", None)  # nobody may ask for it
    trainer = make_trainer(over_gloo, "central")
    trainer.fit(SAMPLES, epochs=1, batch_size=4)
    assert isinstance(trainer.worker, ShardedModel)
    kept = trainer.worker._optimizer._optimizer
    mine = 0 if kept is None else sum(len(one["exp_avg"]) for one in kept.state.values())
    everyone = over_gloo.allgather_objects(mine)
    assert sum(everyone) == sum(one.numel() for one in trainer.model.parameters())
    assert max(everyone) < sum(everyone)
    alone = make_trainer(SingleCommunicator(), "single")
    alone.fit(SAMPLES, epochs=1, batch_size=4)
    alone.load(trainer.state())  # its state is the same, whoever has it
    trainer.fit(SAMPLES, epochs=1, batch_size=4)
    alone.fit(SAMPLES, epochs=1, batch_size=4)
    assert_close(list(trainer.model.parameters()), list(alone.model.parameters()), 1e-6)
    trainer.load(alone.state())
    trainer.fit(SAMPLES, epochs=1, batch_size=4)
    alone.fit(SAMPLES, epochs=1, batch_size=4)
    assert_close(list(trainer.model.parameters()), list(alone.model.parameters()), 1e-6)
    trainer.close()


def held() -> tuple[int, ...]:
    """The descriptors and threads of this process."""
    return tuple(len(list(Path(f"/proc/self/{one}").iterdir())) for one in ("fd", "task"))


@pytest.mark.ranks(2)
def test_a_hundred_trainers_leave_nothing(over_gloo: Communicator) -> None:
    names = ["central", "allreduce", "local", "tensor", "pipeline", "server", "gather", "async"]
    sizes = []
    for number in range(104):
        with make_trainer(over_gloo, names[number % 8], width=8) as trainer:
            trainer.fit(SAMPLES, epochs=1, batch_size=8)
        del trainer
        if number % 8 == 7:
            over_gloo.barrier()
            sizes.append(held())
    # The first round opens what all others use as well.
    assert len(set(sizes[1:])) == 1, sizes
