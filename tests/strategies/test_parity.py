"""N ranks give the weights of one; one rank gives those of a plain torch loop."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from phalanx import data, models
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import batches
from phalanx.data.split import Split
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.asynchronous.strategy import Asynchronous
from phalanx.strategies.base import Strategy
from phalanx.strategies.central import Central
from phalanx.strategies.gather import Gather
from phalanx.strategies.pipeline.strategy import Pipeline
from phalanx.strategies.server import Server
from phalanx.strategies.tensor.strategy import Tensor as TensorParallel
from phalanx.train.losses import make_loss
from phalanx.train.trainer import Trainer

OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda parameters: SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: Adam(parameters, lr=0.001),
}


#: Every strategy whose weights are those of `single`, up to rounding.
EXACT: dict[str, Strategy] = {
    "allreduce": Allreduce(),
    "central": Central(),
    "server": Server(),
    "gather": Gather(),
    "async in step": Asynchronous(max_staleness=0),
    "pipeline": Pipeline(),
    "tensor": TensorParallel(),
}
#: Parts that every batch is cut in where BatchNorm and dropout depend on it.
SHARDS = 4


def make_split(count: int = 67) -> Split:
    return data.load("digits").train.subset(torch.arange(count))


def make_model(name: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(11)
    if name == "normalised":
        return make_normalised().to(dtype)
    options = {"hidden": (24, 16)} if name == "deep mlp" else {}
    kind = name.removeprefix("deep ")
    return models.build(kind, input_shape=(1, 8, 8), classes=10, options=options).to(dtype)


def make_normalised() -> nn.Module:
    """BatchNorm and dropout; no bias before BatchNorm, which would be noise that Adam amplifies."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Conv2d(6, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.4),
        nn.Linear(8 * 16, 10),
    )


def train(
    model: nn.Module,
    comm: Communicator,
    *,
    strategy: str | Strategy,
    optimizer: str = "sgd",
    loss: str = "cross-entropy",
    reduction: Any = "mean",
    batch_size: int = 13,
    memory_format: Any = "auto",
    shards: int | None = None,
) -> list[Tensor]:
    trainer = Trainer(
        model,
        OPTIMIZERS[optimizer](model.parameters()),
        loss=make_loss(loss, reduction),
        strategy=strategy,
        comm=comm,
        seed=5,
        memory_format=memory_format,
        shards=shards,
    )
    trainer.fit(make_split(), epochs=1, batch_size=batch_size)
    trainer.sync()
    return [tensor.detach().clone() for tensor in model.state_dict().values()]


@cache
def train_alone(model: str, dtype: torch.dtype = torch.float32, **options: Any) -> list[Tensor]:
    """What all are compared with, once for all of them."""
    return train(make_model(model, dtype), SingleCommunicator(), strategy="single", **options)


def assert_close(mine: list[Tensor], reference: list[Tensor], tolerance: float) -> None:
    for one, other in zip(mine, reference, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", ["mlp", "simplecnn"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)], ids=["f32", "f64"]
)
# 67 samples in batches of 13 divide by no number of ranks; in batches of 3 some ranks get none.
@pytest.mark.parametrize("batch_size", [12, 13, 3])
@pytest.mark.parametrize("strategy", ["allreduce", "central"])
def test_any_batch_and_dtype_equals_single(
    comm: Communicator,
    strategy: str,
    model: str,
    optimizer: str,
    dtype: torch.dtype,
    tolerance: float,
    batch_size: int,
) -> None:
    options: dict[str, Any] = {"optimizer": optimizer, "batch_size": batch_size}
    parallel = train(make_model(model, dtype), comm, strategy=strategy, **options)
    assert_close(parallel, train_alone(model, dtype, **options), tolerance)


@pytest.mark.ranks(2, 3, 4)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", ["deep mlp", "simplecnn", "normalised"])
@pytest.mark.parametrize("strategy", EXACT)
def test_every_strategy_equals_single(
    comm: Communicator, strategy: str, model: str, optimizer: str
) -> None:
    # 67 samples in batches of 14: a last batch of 11, and parts of two or more for BatchNorm.
    shards = SHARDS if model == "normalised" else None
    options: dict[str, Any] = {"optimizer": optimizer, "shards": shards, "batch_size": 14}
    parallel = train(make_model(model), comm, strategy=EXACT[strategy], **options)
    assert_close(parallel, train_alone(model, **options), 1e-5)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("loss", ["cross-entropy", "squared-error"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_every_loss_adds_up(comm: Communicator, loss: str, reduction: str) -> None:
    options: dict[str, Any] = {"loss": loss, "reduction": reduction, "optimizer": "adam"}
    parallel = train(make_model("mlp"), comm, strategy="allreduce", **options)
    assert_close(parallel, train_alone("mlp", **options), 1e-5)


@pytest.mark.ranks(2, 4)
def test_every_rank_has_the_same_weights(comm: Communicator) -> None:
    model = make_model("simplecnn")
    if comm.rank == 1:  # ranks may start differently: rank 0's weights are the ones
        nn.init.zeros_(next(model.parameters()))
    weights = train(model, comm, strategy="allreduce")
    for tensor in weights:
        everywhere = comm.allgather_objects(tensor)
        assert all(torch.equal(tensor, other) for other in everywhere)
    assert_close(weights, train_alone("simplecnn"), 1e-5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", ["mlp", "simplecnn"])
def test_single_equals_plain_torch_exactly(model: str, optimizer: str) -> None:
    plain = make_model(model)
    ours = copy.deepcopy(plain)
    train(
        ours,
        SingleCommunicator(),
        strategy="single",
        optimizer=optimizer,
        memory_format="preserve",
    )
    stepper = OPTIMIZERS[optimizer](plain.parameters())
    for batch in batches(make_split(), batch_size=13, seed=5, epoch=0):
        inputs, targets = batch.whole()
        stepper.zero_grad()
        F.cross_entropy(plain(inputs), targets).backward()  # type: ignore[no-untyped-call]
        stepper.step()
    for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
