"""Checkpoints of a training: when they are written, and that it goes on with the same bits."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from phalanx import Checkpoints, Split, Trainer
from phalanx.checkpoints.folders import written
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import CheckpointError, UsageError
from phalanx.settings.intervals import Interval, parse_interval

SPLIT = Split(torch.linspace(-1, 1, 96).view(24, 4), torch.arange(24) % 3)
FIT: dict[str, Any] = {"batch_size": 8}


def make_trainer(
    comm: Communicator, strategy: str | None = None, *, shards: int | None = 3
) -> Trainer:
    torch.manual_seed(9)
    layers = [nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3)]
    if shards is None:
        del layers[1:3]
    model = nn.Sequential(*layers)
    optimizer = Adam(model.parameters(), lr=0.01)
    return Trainer(model, optimizer, strategy=strategy, comm=comm, seed=3, shards=shards)


def weights(trainer: Trainer) -> list[Tensor]:
    trainer.sync()
    return [tensor.detach().clone() for tensor in trainer.model.state_dict().values()]


def assert_same(trainer: Trainer, other: Trainer) -> None:
    for mine, theirs in zip(weights(trainer), weights(other), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def steps(folder: Path) -> list[int]:
    return sorted(int(one.name.split("-")[1]) for one in written(folder))


@pytest.mark.parametrize(
    ("every", "there"),
    [("2", [2, 4, 6]), ("1 epoch", [3, 6]), ("never", [6]), ("5m", [6]), ("3 epochs", [6])],
)
def test_when_they_are_written(tmp_path: Path, every: str, there: list[int]) -> None:
    """24 samples in eights are 3 steps an epoch; there is always one at the end."""
    trainer = make_trainer(SingleCommunicator(), shards=None)
    trainer.fit(SPLIT, epochs=2, checkpoint=Checkpoints(tmp_path, every, keep=9), **FIT)
    assert steps(tmp_path) == there


def test_a_clock_that_all_ranks_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second a look at the clock: one every three steps is due every two or three looks."""
    now = iter(range(1000))
    monkeypatch.setattr("phalanx.train.checkpointing.time.monotonic", lambda: next(now))
    trainer = make_trainer(SingleCommunicator(), shards=None)
    trainer.fit(SPLIT, epochs=4, checkpoint=Checkpoints(tmp_path, "3s", keep=99), **FIT)
    found = steps(tmp_path)
    assert found[-1] == 12
    assert 3 <= len(found) < 12


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
def test_a_training_goes_on_with_the_same_bits(
    comm: Communicator, shared_path: Path, strategy: str
) -> None:
    """In the middle of an epoch, on one rank after several and on several after one."""
    undisturbed = make_trainer(SingleCommunicator(), "single")
    undisturbed.fit(SPLIT, epochs=3, **FIT)
    first = make_trainer(comm, strategy)
    first.fit(SPLIT, epochs=3, steps=4, checkpoint=shared_path / strategy, **FIT)
    comm.barrier()
    alone = make_trainer(SingleCommunicator(), "single")
    alone.load(shared_path / strategy)
    assert alone.position.inside_epoch
    alone.fit(SPLIT, epochs=3 - alone.position.epoch, **FIT)
    assert_same(alone, undisturbed)
    again = make_trainer(comm, "central" if strategy == "allreduce" else "allreduce")
    again.load(shared_path / strategy)
    again.fit(SPLIT, epochs=3 - again.position.epoch, **FIT)
    assert_same(again, undisturbed)


def test_one_by_hand(tmp_path: Path) -> None:
    trainer = make_trainer(SingleCommunicator())
    trainer.fit(SPLIT, epochs=1, **FIT)
    trainer.save(tmp_path / "kept")
    trainer.fit(SPLIT, epochs=1, **FIT)
    trainer.save(tmp_path / "kept")
    assert steps(tmp_path / "kept") == [3, 6]
    other = make_trainer(SingleCommunicator())
    other.load(tmp_path / "kept" / "step-000000003")
    assert other.position.epoch == 1
    other.save(tmp_path / "kept")  # which takes nothing away
    assert steps(tmp_path / "kept") == [3, 3, 6]
    other.load(str(tmp_path / "kept"))
    assert_same(other, trainer)


def test_a_damaged_one_is_passed_over_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = make_trainer(SingleCommunicator())
    trainer.fit(SPLIT, epochs=2, checkpoint=Checkpoints(tmp_path, "1 epoch"), **FIT)
    damaged = tmp_path / "step-000000006" / "rank-0.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    other = make_trainer(SingleCommunicator())
    other.load(tmp_path)
    assert other.position.epoch == 1
    assert "step-000000006/rank-0.safetensors" in caplog.text
    assert "the one before, step-000000003, is taken" in caplog.text
    with pytest.raises(CheckpointError, match=r"rank-0\.safetensors"):
        other.load(tmp_path / "step-000000006")
    with pytest.raises(CheckpointError, match="has no checkpoint that can be read"):
        other.load(tmp_path / "nowhere")


def test_the_best_weights_are_kept_apart(tmp_path: Path) -> None:
    """A training with keep_best goes on from its last weights, and knows the best ones."""
    trainer = make_trainer(SingleCommunicator())
    trainer.fit(SPLIT, epochs=2, keep_best=True, checkpoint=tmp_path, **FIT)
    straight = make_trainer(SingleCommunicator())
    straight.fit(SPLIT, epochs=4, keep_best=True, **FIT)
    other = make_trainer(SingleCommunicator())
    other.load(tmp_path)
    other.fit(SPLIT, epochs=2, keep_best=True, **FIT)
    assert_same(other, straight)


def test_intervals() -> None:
    assert parse_interval("500", where="") == Interval(steps=500)
    assert parse_interval("30s", where="") == Interval(seconds=30)
    assert parse_interval("5 m", where="") == Interval(seconds=300)
    assert parse_interval("2h", where="") == Interval(seconds=7200)
    assert parse_interval("2 epochs", where="") == Interval(epochs=2)
    assert parse_interval("never", where="") == Interval()
    for wrong in ("", "0", "-1", "5 weeks", "1.5m", "epoch", "1e3"):
        with pytest.raises(UsageError, match=f"every {wrong}: takes 500"):
            parse_interval(wrong, where="every")
