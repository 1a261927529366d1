"""A model cut over ranks trains as it does on one."""

import re
from pathlib import Path

import pytest
import torch
from torch.optim import Adam

from phalanx import data
from phalanx.comm.base import Communicator
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.train.trainer import Trainer
from tests.commands import Phalanx
from tests.job_commands import OnRanks
from tests.strategies.pipeline.cases import (
    Build,
    Staged,
    assert_parity,
    mlp,
    nested,
    normed,
    partly_frozen,
    simplecnn,
    train,
)


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize(
    ("build", "optimizer", "batch_size"),
    # 67 samples: batches of 13 leave uneven micro-batches, and of 3 fewer samples than those.
    [(mlp, "sgd", 13), (mlp, "adam", 12), (simplecnn, "sgd", 3), (simplecnn, "adam", 13)],
)
def test_stages_equal_single(
    comm: Communicator, build: Build, optimizer: str, batch_size: int
) -> None:
    assert_parity(comm, Pipeline(), build, optimizer=optimizer, batch_size=batch_size)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("build", [nested, Staged, partly_frozen])
def test_every_kind_of_model(comm: Communicator, build: Build) -> None:
    assert_parity(comm, Pipeline(), build, epochs=2, optimizer="fused")


@pytest.mark.ranks(4)
@pytest.mark.parametrize("cut", [(1, 2, 3), (3, 4, 5)])
@pytest.mark.parametrize("build", [nested, partly_frozen])
def test_stages_that_begin_in_place_or_hold_no_weights(
    comm: Communicator, build: Build, cut: tuple[int, ...]
) -> None:
    assert_parity(comm, Pipeline(cut=cut), build)


@pytest.mark.ranks(1, 2, 4)
@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_shards_keep_dropout_and_statistics(comm: Communicator, clip_norm: float | None) -> None:
    options = {"shards": 4, "clip_norm": clip_norm, "batch_size": 16, "count": 56, "epochs": 2}
    assert_parity(comm, Pipeline(), normed, **options)


@pytest.mark.ranks(3)
def test_random_state_crosses_stages_that_draw_nothing(comm: Communicator) -> None:
    options = {"shards": 4, "batch_size": 16, "count": 64}
    assert_parity(comm, Pipeline(cut=(4, 6)), normed, **options)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("batch_size", [16, 13, 3, 1])
def test_replicas_equal_single(comm: Communicator, batch_size: int) -> None:
    assert_parity(comm, Pipeline(replicas=2), mlp, batch_size=batch_size, clip_norm=0.3)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("shards", [4, 5])
def test_replicas_under_shards(comm: Communicator, shards: int) -> None:
    options = {"shards": shards, "batch_size": 20, "count": 80}
    assert_parity(comm, Pipeline(replicas=2), normed, **options)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("clip_norm", [0.1, 100.0])
def test_clipping_is_by_the_norm_of_all_stages(comm: Communicator, clip_norm: float) -> None:
    assert_parity(comm, Pipeline(), mlp, clip_norm=clip_norm)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_statistics_without_shards_are_the_same_everywhere(
    comm: Communicator, replicas: int
) -> None:
    strategy = Pipeline(micro_batches=2, replicas=replicas)
    mine, _ = train(comm, strategy, normed, batch_size=32, count=64)
    for tensors in comm.allgather_objects(mine):
        assert all(torch.equal(one, other) for one, other in zip(tensors, mine, strict=True))
    micro_batches = 2 * 2
    assert mine[5].item() == micro_batches  # BatchNorm's counter, in the order of state_dict


@pytest.mark.ranks(2)
def test_a_rank_keeps_the_weights_and_state_of_its_stage_alone(comm: Communicator) -> None:
    torch.manual_seed(0)
    model = mlp()
    optimizer = Adam(model.parameters())
    trainer = Trainer(model, optimizer, strategy=Pipeline(cut=(3,)), comm=comm)
    split = data.load("digits").train.subset(torch.arange(20))
    trainer.fit(split, epochs=1, batch_size=10)
    held = [parameter.numel() > 0 for parameter in model.parameters()]
    first = [True, True] + [False] * 6
    assert held == (first if comm.rank == 0 else [not one for one in first])
    assert [parameter in optimizer.state for parameter in model.parameters()] == held
    assert [parameter.grad is not None for parameter in model.parameters()] == held
    trainer.sync()
    assert all(parameter.numel() > 0 for parameter in model.parameters())


FAILING = """
from torch import nn

class Failing(nn.Module):
    calls = 0

    def forward(self, inputs):
        self.calls += self.training
        if self.calls > 15:
            raise RuntimeError("the seventh seal")
        return inputs

def model():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), Failing(), nn.Linear(32, 10))
"""


def test_a_stage_that_fails_ends_the_job(phalanx: Phalanx, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    command = ("train", "--strategy", "pipeline", "--ranks", 2, "--cut", 2)
    done = phalanx(*command, "--model", "failing.py:model")
    assert done.returncode == 1
    assert done.stderr.startswith("rank 1 of 2"), done.stderr
    assert "the seventh seal" in done.stderr


@pytest.mark.ranks(2)
def test_the_command_line(on_ranks: OnRanks) -> None:
    command = ("train", "--strategy", "pipeline", "--ranks", 2, "--model", "simplecnn")
    done = on_ranks(*command, "--epochs", 1, "--validation-split", 0.1, "--output", "run")
    assert "Pipeline" in done.stdout
    accuracy = re.search(r"^test: .*(accuracy \S+)$", done.stdout, re.MULTILINE)
    assert accuracy is not None
    assert accuracy[1] in on_ranks("evaluate", "run", alone=True).stdout
