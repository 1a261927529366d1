"""A model cut over ranks trains as it does on one."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adam, AdamW, Optimizer

from phalanx import data, models
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.strategies.base import Strategy
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.train.trainer import Trainer
from tests.commands import Phalanx

Build = Callable[[], nn.Module]
OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda parameters: SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: Adam(parameters, lr=0.001),
    "fused": lambda parameters: AdamW(parameters, lr=0.01, fused=True),
}


def mlp() -> nn.Module:
    return models.build("mlp", input_shape=(1, 8, 8), classes=10, options={"hidden": (32, 24, 16)})


def simplecnn() -> nn.Module:
    return models.build("simplecnn", input_shape=(1, 8, 8), classes=10)


def normed() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(6 * 64, 37),
        nn.BatchNorm1d(37),
        nn.Dropout(0.5),
        nn.Linear(37, 10),
    )


def nested() -> nn.Module:
    """In-place layers everywhere, also where stages begin."""
    return nn.Sequential(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 20)),
        nn.Sequential(nn.ReLU(inplace=True), nn.Sequential(nn.Linear(20, 16))),
        nn.ReLU(inplace=True),
        nn.Linear(16, 10),
    )


class Staged(nn.Module):
    """A model that is not sequential by its class, with a module that only stages() makes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 24)
        self.second = nn.Linear(24, 16)
        self.last = nn.Linear(16, 10)

    def stages(self) -> Iterator[nn.Module]:
        yield nn.Flatten()
        yield self.first
        yield nn.Sequential(nn.Tanh(), self.second)
        yield self.last

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.last(self.second(self.first(inputs.flatten(1)).tanh()))
        return outputs


class Unused(nn.Module):
    """Has a weight that takes no part."""

    def __init__(self) -> None:
        super().__init__()
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs


def partly_frozen() -> nn.Module:
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 20),
        nn.Tanh(),
        nn.Linear(20, 20),
        Unused(),
        nn.Linear(20, 16),
        nn.Linear(16, 10),
    )
    for index in (1, 5):
        model[index].requires_grad_(False)
    return model


def train(
    comm: Communicator,
    strategy: Strategy | str,
    build: Build,
    *,
    optimizer: str = "sgd",
    batch_size: int = 13,
    epochs: int = 1,
    count: int = 67,
    **options: Any,
) -> tuple[list[Tensor], Trainer]:
    torch.manual_seed(11)
    model = build()
    trainer = Trainer(
        model,
        OPTIMIZERS[optimizer](model.parameters()),
        strategy=strategy,
        comm=comm,
        seed=5,
        **options,
    )
    split = data.load("digits").train.subset(torch.arange(count))
    for _ in range(epochs):  # weights are read between, and training goes on
        trainer.sync()
        trainer.fit(split, epochs=1, batch_size=batch_size)
    trainer.sync()
    return [tensor.detach().clone() for tensor in model.state_dict().values()], trainer


def assert_parity(comm: Communicator, strategy: Strategy, build: Build, **options: Any) -> None:
    mine, _ = train(comm, strategy, build, **options)
    alone, _ = train(SingleCommunicator(), "single", build, **options)
    for one, other in zip(mine, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    for tensors in comm.allgather_objects(mine):
        assert all(torch.equal(one, other) for one, other in zip(tensors, mine, strict=True))


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


@pytest.mark.ranks(4)
def test_the_cut_is_reported_and_logged_once(
    comm: Communicator, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="phalanx.pipeline"):
        _, trainer = train(comm, Pipeline(replicas=2), mlp)
    assert len(caplog.records) == (1 if comm.rank == 0 else 0)
    assert trainer.plan() == ()
    tables = trainer.report()
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


def tied() -> nn.Sequential:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10))
    model[2].weight = model[1].weight
    return model


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


class Pair(nn.Module):
    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return inputs, inputs


class Sum(nn.Module):
    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        return inputs[0] + inputs[1]


def paired() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), Pair(), Sum(), nn.Linear(64, 10))


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


def test_the_command_line(phalanx: Phalanx) -> None:
    command = ("train", "--strategy", "pipeline", "--ranks", 2, "--model", "simplecnn")
    done = phalanx(*command, "--epochs", 1, "--validation-split", 0.1, "--output", "run")
    assert done.returncode == 0, done.stderr
    assert "Pipeline" in done.stdout
    evaluated = phalanx("evaluate", "run")
    assert evaluated.returncode == 0, evaluated.stderr
