"""A model that no rank holds as a whole trains, evaluates, is saved and resumed as a whole one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adagrad, Adam

import phalanx
from phalanx import Split, Trainer, UsageError
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.exchange.flat import FlatBlock
from phalanx.models.recorded import Record
from phalanx.runs.weights import load_weights
from phalanx.strategies.base import Strategy
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.strategies.tensor.strategy import Tensor as TensorParallel

WIDTH, LAYERS = 96, 7


def make_model() -> nn.Module:
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS - 2)]
    frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
    return nn.Sequential(nn.Linear(20, WIDTH), nn.ReLU(), *blocks, frozen, nn.Linear(WIDTH, 5))


def samples() -> Split:
    points = torch.randn(300, 20, generator=torch.Generator().manual_seed(1))
    return Split(points, points[:, :5].argmax(1))


def begin(strategy: Strategy, comm: Communicator, *, seed: int = 7) -> Trainer:
    """Only rank 0 has the seed that counts."""
    torch.manual_seed(seed + comm.rank)
    model = phalanx.in_parts(make_model)
    return Trainer(model, Adam(model.parameters(), lr=0.003), strategy=strategy, comm=comm)


def as_one_rank(epochs: int) -> tuple[float, Tensor | None]:
    """The loss and the outputs of a whole model on one rank."""
    torch.manual_seed(7)
    model = make_model()
    comm = SingleCommunicator()
    with Trainer(model, Adam(model.parameters(), lr=0.003), strategy="single", comm=comm) as one:
        one.fit(samples(), epochs=epochs, batch_size=64)
        return one.evaluate(samples()).loss, one.predict(samples())


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategies", [(Pipeline(), TensorParallel()), (TensorParallel(), None)])
def test_it_equals_a_whole_model(
    comm: Communicator, shared_path: Path, strategies: tuple[Strategy, Strategy | None]
) -> None:
    first, second = strategies[0], strategies[1] or Pipeline()
    with begin(first, comm) as trainer:
        trainer.fit(samples(), epochs=1, batch_size=64, validation=samples())
        loss, outputs = as_one_rank(1)
        assert trainer.evaluate(samples()).loss == pytest.approx(loss, abs=1e-5)
        found = trainer.predict(samples())
        if comm.rank == 0:
            assert found is not None
            torch.testing.assert_close(found, outputs, atol=1e-5, rtol=1e-4)
        trainer.save(shared_path)
        trainer.save_weights(shared_path / "model.safetensors")
    whole = make_model()
    load_weights(whole, shared_path / "model.safetensors")
    with torch.no_grad():
        loss_of_file = nn.functional.cross_entropy(whole(samples().inputs), samples().targets)
    assert loss_of_file.item() == pytest.approx(loss, abs=1e-5)
    with begin(second, comm, seed=99) as trainer:
        trainer.load(shared_path)
        assert trainer.evaluate(samples()).loss == pytest.approx(loss, abs=1e-5)
        trainer.fit(samples(), epochs=1, batch_size=64)
        assert trainer.evaluate(samples()).loss == pytest.approx(as_one_rank(2)[0], abs=1e-5)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("strategy", [Pipeline(replicas=2), TensorParallel(replicas=2)])
def test_copies_of_it_share_batches(comm: Communicator, strategy: Strategy) -> None:
    with begin(strategy, comm) as trainer:
        trainer.fit(samples(), epochs=1, batch_size=64)
        found = trainer.evaluate(samples())
    assert found.count == 300
    assert found.loss == pytest.approx(as_one_rank(1)[0], abs=1e-5)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("strategy", [Pipeline(), TensorParallel()])
def test_a_rank_has_its_part_and_one_layer(
    comm: Communicator, strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted where memory for weights is taken: for this rank's part, and for what is made."""
    taken: dict[str, list[int]] = {"part": [], "made": []}
    init, values = FlatBlock.__init__, Record.values

    def counted(self: FlatBlock, *args: Any, **named: Any) -> None:
        init(self, *args, **named)
        taken["part"].append(self.values.nbytes)

    def made(self: Record, *args: Any) -> Tensor:
        tensor = values(self, *args)
        taken["made"].append(tensor.nbytes)
        return tensor

    monkeypatch.setattr(FlatBlock, "__init__", counted)
    monkeypatch.setattr(Record, "values", made)
    with begin(strategy, comm) as trainer:
        whole = sum(one.numel() * 4 for one in make_model().parameters())
        layer = 4 * WIDTH * WIDTH
        trainer.fit(samples(), epochs=1, batch_size=64)
        trainer.evaluate(samples())
        here = sum(one.nbytes for one in trainer.model.parameters() if not one.is_meta)
        assert sum(taken["part"]) <= whole / comm.size + 1.5 * layer
        assert here <= whole / comm.size + 1.5 * layer
        assert max(taken["made"]) == layer


@pytest.mark.ranks(2)
def test_what_takes_the_whole_is_refused(comm: Communicator) -> None:
    with begin(Pipeline(), comm) as trainer:
        with pytest.raises(UsageError, match="state: would give every rank the whole"):
            trainer.state()
        with pytest.raises(UsageError, match="keep_best: takes a copy of the whole"):
            trainer.fit(samples(), epochs=1, batch_size=64, keep_best=True)
        closed = trainer.model
    with pytest.raises(UsageError, match="make the model anew"):
        Trainer(closed, Adam(closed.parameters()), strategy="pipeline", comm=comm)
    model = phalanx.in_parts(make_model)
    with pytest.raises(UsageError, match="strategy 'central' trains whole models"):
        Trainer(model, Adam(model.parameters()), strategy="central", comm=comm)
    with pytest.raises(UsageError, match="Adagrad makes its state with its parameters"):
        Trainer(model, Adagrad(model.parameters()), strategy="tensor", comm=comm)
