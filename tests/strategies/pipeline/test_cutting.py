"""Where a model is cut over ranks: reported, never where that cannot be, and refused."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from torch import Tensor, nn
from torch.optim import LBFGS, SGD

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.strategies.base import Strategy
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.train.trainer import Trainer
from tests.strategies.pipeline.cases import (
    Build,
    Staged,
    assert_parity,
    mlp,
    paired,
    tied,
    train,
)


@pytest.mark.ranks(4)
def test_the_cut_is_reported_and_logged_once(
    comm: Communicator, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="phalanx.pipeline"):
        _, trainer = train(comm, Pipeline(replicas=2), mlp)
    assert len(caplog.records) == (1 if comm.rank == 0 else 0)
    assert trainer.worker.plan() == ()
    tables = trainer.worker.report()
    assert comm.allgather_objects(tables) == [tables] * comm.size
    stages, bubble = tables
    assert (stages.title, bubble.title) == ("Pipeline", "Bubble")
    assert [row[:2] for row in stages.rows] == [("0", "0, 2"), ("1", "1, 3")]
    assert stages.rows[0][2].startswith("0")
    assert stages.rows[1][2].endswith("–7")
    assert [len(row) for row in stages.rows] == [len(stages.columns)] * 2
    assert [row[2] for row in bubble.rows] == ["20.0%"] * 2
    if comm.rank == 0:
        start = stages.rows[1][2].partition("–")[0]
        assert f"layers 0,{start}:" in caplog.text


def bind(comm: Communicator, model: nn.Module, strategy: Strategy, **options: Any) -> Trainer:
    optimizer = options.pop("optimizer", lambda parameters: SGD(parameters, lr=0.1))
    return Trainer(model, optimizer(model.parameters()), strategy=strategy, comm=comm, **options)


class Opaque(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)


class Own(nn.Sequential):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = super().forward(inputs)  # type: ignore[no-untyped-call]
        return outputs * 2


def hooked() -> nn.Module:
    model = mlp()
    model.register_forward_hook(lambda _module, _inputs, outputs: outputs * 2)
    return model


class Incomplete(Staged):
    def stages(self) -> Iterator[nn.Module]:
        yield self.first
        yield self.last


@pytest.mark.ranks(3)
@pytest.mark.parametrize(
    ("model", "strategy", "options", "message"),
    [
        (Opaque, Pipeline(), {}, r"Opaque: make it an nn.Sequential, or .* stages\(\)"),
        (lambda: Own(nn.Linear(2, 2)), Pipeline(), {}, "those of Own"),
        (hooked, Pipeline(), {}, "hooks of the model"),
        (Incomplete, Pipeline(), {}, "'second.weight' of Incomplete"),
        (lambda: nn.Sequential(nn.Linear(2, 2)), Pipeline(), {}, "has 1 for 3 ranks"),
        (mlp, Pipeline(cut=(3,)), {}, "makes 2 stages, and the ranks of a replica are 3"),
        (mlp, Pipeline(cut=(3, 8)), {}, "layers 0 to 7"),
        (tied, Pipeline(cut=(1, 2)), {}, "'1.weight' is shared by layer 1"),
        (mlp, Pipeline(replicas=2), {}, "can be 1, 3 here"),
        (mlp, Pipeline(micro_batches=3), {"shards": 4}, "4 shards are not 3 micro-batches"),
        (mlp, Pipeline(), {"accumulate": 2}, "set micro_batches"),
        (mlp, Pipeline(), {"compile": True}, "leave out compile"),
        (mlp, Pipeline(), {"optimizer": LBFGS}, "LBFGS"),
    ],
)
def test_what_cannot_work_is_refused(
    comm: Communicator, model: Build, strategy: Strategy, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        bind(comm, model(), strategy, **options)


@pytest.mark.parametrize("cut", [(3, 3), (4, 2), (0, 2), (-1,)])
def test_a_cut_in_disorder(cut: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="each above the one before"):
        Pipeline(cut=cut)


def test_no_micro_batch() -> None:
    with pytest.raises(UsageError, match="at least 1, not 0"):
        Pipeline(micro_batches=0)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("build", [paired, tied])
def test_never_cut_where_that_cannot_be(comm: Communicator, build: Build) -> None:
    assert_parity(comm, Pipeline(), build)


@pytest.mark.ranks(2)
def test_a_cut_behind_a_tuple(comm: Communicator) -> None:
    message = r"because layer 1 \(Pair\) before it gives a tuple.* begin with: 1,3"
    with pytest.raises(UsageError, match=message):
        train(comm, Pipeline(cut=(2,)), paired)


@pytest.mark.ranks(4)
@pytest.mark.parametrize(("build", "cause"), [(paired, "Pair"), (tied, "'1.weight' is shared")])
def test_too_few_places_to_cut(comm: Communicator, build: Build, cause: str) -> None:
    with pytest.raises(UsageError, match=rf"into 3 stages at most, and not into 4: .*{cause}"):
        train(comm, Pipeline(), build)
