"""Losses that are scaled where passes compute in float16: over ranks, and across a resume."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from phalanx import Split, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.strategies import loss_scale
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.base import Loss
from phalanx.strategies.loss_scale import LossScale
from phalanx.strategies.registry import STRATEGIES
from phalanx.strategies.scaling_rules import SCALED

#: So small that the gradients of the loss are 0 in float16.
SMALL = 1e-8


def make_split(count: int = 240) -> Split:
    random = torch.Generator().manual_seed(1)
    inputs = torch.randn(count, 6, generator=random)
    return Split(inputs, (inputs.sum(1) > 0).long())


def small_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets) * SMALL


def make_trainer(comm: Communicator, strategy: str = "single", **options: Any) -> Trainer:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5 / SMALL)
    options.setdefault("loss", Loss(small_loss))
    return Trainer(model, optimizer, strategy=strategy, comm=comm, **options)


def accuracy(trainer: Trainer) -> float:
    trainer.fit(make_split(), epochs=3, batch_size=24)
    return float(trainer.evaluate(make_split()).accuracy or 0.0)


def weights(trainer: Trainer) -> Tensor:
    trainer.sync()
    return torch.cat([one.detach().reshape(-1) for one in trainer.model.parameters()])


def test_a_small_loss_trains_as_in_float32() -> None:
    plain = accuracy(make_trainer(SingleCommunicator()))
    scaled = accuracy(make_trainer(SingleCommunicator(), autocast=torch.float16))
    assert plain > 0.9
    assert scaled == pytest.approx(plain, abs=0.02)


def test_without_a_scale_it_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_scale, "_FIRST", 1.0)
    trainer = make_trainer(SingleCommunicator(), autocast=torch.float16)
    before = weights(trainer).clone()
    accuracy(trainer)
    assert torch.equal(weights(trainer)[:96], before[:96])  # nothing came to the first layer


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
@pytest.mark.parametrize("options", [{}, {"shards": 4}, {"clip_norm": 0.1 * SMALL}], ids=str)
def test_the_same_on_any_number_of_ranks(
    comm: Communicator, strategy: str, options: dict[str, Any]
) -> None:
    alone = make_trainer(SingleCommunicator(), autocast=torch.float16, **options)
    trainer = make_trainer(comm, strategy, autocast=torch.float16, **options)
    for one in (alone, trainer):
        one.fit(make_split(), epochs=1, batch_size=24)
    tolerance = 0.0 if "shards" in options else 5e-3
    assert torch.allclose(weights(trainer), weights(alone), rtol=0, atol=tolerance)


class Overflowing:
    """A loss that is not finite on one rank, in one step."""

    def __init__(self, rank: int, step: int) -> None:
        self._rank, self._step, self._calls = rank, step, 0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self._calls += 1
        broken = self._calls == self._step and self._rank == 0
        return small_loss(outputs, targets) * (float("inf") if broken else 1.0)


def check_left_out(comm: Communicator, strategy: str) -> None:
    loss = Loss(Overflowing(comm.rank, 3))
    trainer = make_trainer(comm, strategy, autocast=torch.float16, loss=loss)
    trainer.fit(make_split(), epochs=1, steps=2, batch_size=24)
    before = weights(trainer).clone()
    trainer.fit(make_split(), epochs=1, steps=1, batch_size=24)
    assert torch.equal(weights(trainer), before)
    scale = trainer.task.scale
    assert scale is not None
    assert comm.allgather_objects(scale.state()) == [{"value": 2.0**15, "steps": 0}] * comm.size
    trainer.fit(make_split(), epochs=1, steps=1, batch_size=24)
    after = weights(trainer)
    assert not torch.equal(after, before)
    assert after.isfinite().all()
    trainer.close()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
def test_a_step_is_left_out_by_all_or_none(comm: Communicator, strategy: str) -> None:
    check_left_out(comm, strategy)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
def test_it_is_left_out_over_torch_as_well(over_gloo: Communicator, strategy: str) -> None:
    check_left_out(over_gloo, strategy)


def test_it_is_left_out_alone() -> None:
    check_left_out(SingleCommunicator(), "single")


@pytest.mark.ranks(2)
def test_the_scale_is_a_part_of_the_state(comm: Communicator, tmp_path: Path) -> None:
    folder = Path(comm.broadcast_object(str(tmp_path))) / "checkpoint"
    trainer = make_trainer(comm, "central", autocast=torch.float16)
    assert trainer.task.scale is not None
    trainer.task.scale.value = 2.0**9
    trainer.fit(make_split(), epochs=1, steps=3, batch_size=24)
    trainer.save(folder)
    resumed = make_trainer(comm, "allreduce", autocast=torch.float16)
    resumed.load(folder)
    assert resumed.task.scale is not None
    assert resumed.task.scale.state() == {"value": 2.0**9, "steps": 3}
    resumed.rebind("central")
    assert resumed.task.scale.state() == {"value": 2.0**9, "steps": 3}
    plain = make_trainer(comm, "allreduce")
    plain.load(folder)  # a training without a scale goes on from it, and the other way round
    resumed.load(plain.state())
    assert resumed.task.scale.state() == {"value": 2.0**16, "steps": 0}


def test_a_scale_grows_after_many_finite_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_scale, "_PATIENCE", 3)
    scale = LossScale()
    found = []
    for bad in (False, False, True, False, False, False):
        gradient = torch.tensor([float("nan") if bad else 2.0**16])
        assert scale.unscale([gradient, torch.empty(0)]) is not bad
        found.append(scale.value)
    assert found == [2.0**16, 2.0**16, 2.0**15, 2.0**15, 2.0**15, 2.0**16]
    sparse = torch.sparse_coo_tensor(
        torch.tensor([[0, 0]]), torch.tensor([2.0**16, 2.0**17]), (3,), check_invariants=True
    )
    assert scale.unscale([sparse])
    assert sparse.to_dense().tolist() == [3.0, 0.0, 0.0]


@pytest.mark.parametrize("strategy", sorted(set(STRATEGIES) - set(SCALED)))
def test_strategies_that_cannot_refuse_by_name(strategy: str) -> None:
    with pytest.raises(UsageError, match=f"--precision fp16 is not for strategy '{strategy}'"):
        check_settings(Settings(precision="fp16", strategy=strategy), 2)


@pytest.mark.ranks(2)
def test_what_float16_does_not_go_with(comm: Communicator) -> None:
    for strategy in ("server", "local", "gather", "async"):
        with pytest.raises(UsageError, match=f"float16 is not for strategy '{strategy}'"):
            make_trainer(comm, strategy, autocast=torch.float16)
    with pytest.raises(UsageError, match="leaves compress no room"):
        make_trainer(comm, Allreduce(compress="fp16"), autocast=torch.float16)  # type: ignore[arg-type]
    model = nn.Linear(2, 2)
    optimizer = torch.optim.LBFGS(model.parameters())
    with pytest.raises(UsageError, match="LBFGS asks for several gradients a step"):
        Trainer(model, optimizer, comm=comm, strategy="allreduce", autocast=torch.float16)
