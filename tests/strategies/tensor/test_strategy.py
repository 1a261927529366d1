"""`tensor`: layers split over ranks give the weights of one rank that has them whole."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, Optimizer

from phalanx import data, models
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.strategies.base import Strategy
from phalanx.strategies.single import Single
from phalanx.strategies.tensor.strategy import Tensor as TensorStrategy
from phalanx.train.trainer import Trainer

OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda parameters: SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda parameters: Adam(parameters, lr=0.001),
    "adagrad": lambda parameters: Adagrad(parameters, lr=0.01),  # has state from the beginning
}


def normed() -> nn.Module:
    """No bias before BatchNorm; dropout of channels, of features, and between a pair."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(inplace=True),
        nn.Dropout(0.3),
        nn.Conv2d(6, 5, 3, padding=1, bias=False),
        nn.BatchNorm2d(5),
        nn.Dropout2d(0.2),
        nn.ReLU(),
        nn.Flatten(),
        nn.BatchNorm1d(5 * 64),
        nn.Dropout(0.1),
        nn.Linear(5 * 64, 37),
        nn.BatchNorm1d(37),
        nn.Dropout(0.5),
        nn.Linear(37, 10),
    )


def reaching() -> nn.Module:
    """A convolution and a linear layer are a pair through pooling, flattening and dropout."""
    return nn.Sequential(
        nn.Conv2d(1, 5, 3, padding=1, bias=False),
        nn.BatchNorm2d(5),
        nn.MaxPool2d(2),
        nn.Dropout2d(0.2),
        nn.Flatten(),
        nn.BatchNorm1d(80),
        nn.Dropout(0.4),
        nn.Linear(80, 10),
    )


def unpaired() -> nn.Module:
    """LayerNorm reads all features: nothing is a pair, and all is large enough to be split."""
    return nn.Sequential(
        nn.Conv2d(1, 64, 8, padding=4, stride=2),  # by output: 25 pixels of 64 channels
        nn.GroupNorm(4, 64),
        nn.Conv2d(64, 30, 3),  # by input
        nn.Softmax(1),
        nn.Flatten(),
        nn.LayerNorm(270),
        nn.Linear(270, 70),  # by input
        nn.LayerNorm(70),
        nn.Linear(70, 91),  # by output
        nn.LayerNorm(91),
        nn.Linear(91, 10),  # whole
    )


class Untraceable(nn.Module):
    """Its way depends on the data, and one layer takes part now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(64, 80)
        self.body = nn.Sequential(nn.Linear(80, 50), nn.Tanh(), nn.Dropout(0.2), nn.Linear(50, 80))
        self.seldom = nn.Linear(80, 80)
        self.head = nn.Linear(80, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        features = torch.relu(self.stem(inputs.flatten(1)))
        if bool(features[0, 0] > 0):
            features = self.seldom(features)
        outputs: Tensor = self.head(features + self.body(features))
        return outputs


class Functional(nn.Module):
    """The layers of a student's script: functions between them, a shape from the input."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 7, 3)
        self.hidden = nn.Linear(63, 21)
        self.twice = nn.Linear(21, 21)
        self.norm = nn.Linear(21, 21)
        self.head = nn.Linear(21, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        features = nn.functional.max_pool2d(torch.relu(self.convolution(inputs)), 2)
        features = torch.tanh(self.hidden(features.reshape(features.size(0), -1)))
        features = self.twice(self.twice(features)) * self.norm.weight.norm()
        outputs: Tensor = self.head(features)
        return outputs


def frozen() -> nn.Module:
    model = models.build("mlp", input_shape=(1, 8, 8), classes=10, options={"hidden": (40, 30, 20)})
    for parameter in [*model[1].parameters(), *model[5].parameters()]:  # type: ignore[index]
        parameter.requires_grad_(False)
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: models.build("mlp", input_shape=(1, 8, 8), classes=10),
    "simplecnn": lambda: models.build("simplecnn", input_shape=(1, 8, 8), classes=10),
    "resnet20": lambda: models.build("resnet20", input_shape=(1, 8, 8), classes=10),
    "normed": normed,
    "reaching": reaching,
    "unpaired": unpaired,
    "untraceable": Untraceable,
    "functional": Functional,
    "frozen": frozen,
}


def make(name: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(11)
    return MODELS[name]().to(dtype)


def fit(
    model: nn.Module,
    comm: Communicator,
    *,
    strategy: Strategy,
    optimizer: str = "sgd",
    count: int = 41,
    epochs: int = 1,
    **options: Any,
) -> tuple[float, list[Tensor]]:
    """The last epoch's loss and what the model holds in the end."""
    trainer = Trainer(
        model,
        OPTIMIZERS[optimizer](model.parameters()),
        strategy=strategy,
        comm=comm,
        seed=5,
        **options,
    )
    split = data.load("digits").train.subset(torch.arange(count))
    done = trainer.fit(split, epochs=epochs, batch_size=13, validation=split)
    trainer.sync()
    assert done[-1].train.count == count
    return done[-1].train.loss, [value.clone() for value in model.state_dict().values()]


def assert_as_single(
    comm: Communicator,
    name: str,
    *,
    replicas: int = 1,
    dtype: torch.dtype = torch.float32,
    tolerance: float = 1e-5,
    **options: Any,
) -> None:
    strategy = TensorStrategy(replicas=replicas)
    loss, weights = fit(make(name, dtype), comm, strategy=strategy, **options)
    alone = make(name, dtype)
    loss_alone, expected = fit(alone, SingleCommunicator(), strategy=Single(), **options)
    assert loss == pytest.approx(loss_alone, abs=tolerance)
    for key, mine, other in zip(alone.state_dict(), weights, expected, strict=True):
        assert torch.allclose(mine, other, rtol=0, atol=tolerance), key
    everywhere = comm.allgather_objects(weights)
    assert all(torch.equal(a, b) for a, b in zip(weights, everywhere[0], strict=True))


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize(
    ("model", "optimizer"),
    [("mlp", "sgd"), ("mlp", "adagrad"), ("simplecnn", "sgd"), ("simplecnn", "adam")],
)
def test_ranks_equal_single(comm: Communicator, model: str, optimizer: str) -> None:
    """With an evaluation after each of two epochs: the model is made whole and split again."""
    assert_as_single(comm, model, optimizer=optimizer, epochs=2, count=27)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("model", ["functional", "frozen"])
def test_other_models_equal_single(comm: Communicator, model: str) -> None:
    assert_as_single(comm, model)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("memory_format", ["channels-last", "preserve"])
def test_layers_without_partners(comm: Communicator, memory_format: str) -> None:
    assert_as_single(comm, "unpaired", memory_format=memory_format)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("model", ["normed", "reaching", "untraceable"])
@pytest.mark.parametrize("memory_format", ["channels-last", "preserve"])
def test_statistics_and_dropout_under_fixed_shards(
    comm: Communicator, model: str, memory_format: str
) -> None:
    assert_as_single(
        comm,
        model,
        dtype=torch.float64,
        tolerance=1e-9,
        shards=3,
        count=39,
        memory_format=memory_format,
    )


@pytest.mark.ranks(2, 3)
def test_residual_network(comm: Communicator) -> None:
    """One step: small differences grow quickly in so deep a network."""
    assert_as_single(comm, "resnet20", dtype=torch.float64, tolerance=1e-9, shards=1, count=6)


@pytest.mark.ranks(2, 3)
def test_clipping_and_accumulation(comm: Communicator) -> None:
    assert_as_single(comm, "simplecnn", clip_norm=0.1, accumulate=3, count=27)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("replicas", [2, 4])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("mlp", {"clip_norm": 0.2}),
        ("simplecnn", {"optimizer": "adam"}),
        ("normed", {"shards": 5, "count": 39, "dtype": torch.float64}),
    ],
)
def test_replicas(comm: Communicator, replicas: int, model: str, options: dict[str, Any]) -> None:
    assert_as_single(comm, model, replicas=replicas, **options)
