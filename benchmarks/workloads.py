"""What is trained in a benchmark: the same model, data, batches and optimizer for everybody.

Data and initial weights come from a seed. The order of samples is that of `phalanx.data.batches`,
in contiguous parts, so that every contender computes the same losses up to rounding.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.optim import SGD

from phalanx import models
from phalanx.data.split import Split
from phalanx.strategies.base import Loss
from phalanx.train.losses import make_loss

SEED = 7


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A training of fixed length: the first `warm_up` epochs are not timed."""

    name: str
    model: str
    input_shape: tuple[int, ...]
    classes: int
    batch_size: int
    #: Steps an epoch.
    steps: int
    warm_up: int = 1
    timed: int = 4
    learning_rate: float
    options: Mapping[str, object] = field(default_factory=dict)
    #: How far losses may lie apart at the end, relative to the loss.
    tolerance: float = 1e-3
    #: BatchNorm's statistics depend on how a batch is cut: compare equal numbers of ranks only.
    depends_on_ranks: bool = False
    #: Seconds for all contenders and rounds together.
    budget: float
    #: The strategy that cuts the model over ranks; None where every rank has a whole one.
    strategy: str | None = None
    #: Where `pipeline` cuts the model in two: the layer that the second stage begins with.
    cut: int = 0
    micro_batches: int = 1

    @property
    def epochs(self) -> int:
        return self.warm_up + self.timed

    @property
    def samples(self) -> int:
        """The samples of one epoch."""
        return self.batch_size * self.steps

    @property
    def has_images(self) -> bool:
        return len(self.input_shape) == 3

    @property
    def has_tokens(self) -> bool:
        return self.model == "transformer"

    def strategy_options(self, strategy: str) -> dict[str, object]:
        """What a strategy of ours is told, so that it cuts the model as the peers do."""
        if strategy != "pipeline":
            return {}
        return {"cut": (self.cut,), "micro_batches": self.micro_batches}

    def quick(self) -> "Workload":
        """A few steps of it, to see that everything runs."""
        return replace(self, steps=min(self.steps, 5), warm_up=1, timed=2)

    def make_data(self) -> Split:
        """Random inputs, and targets that can be learned from them: for tokens, one for each."""
        generator = torch.Generator().manual_seed(SEED)
        if self.has_tokens:
            shape = (self.samples, self.input_shape[0])
            tokens = torch.randint(self.classes, shape, generator=generator)
            return Split(tokens, (tokens * 3 + 1) % self.classes)
        inputs = torch.randn(self.samples, *self.input_shape, generator=generator)
        features = inputs.flatten(1)
        teacher = torch.randn(features.shape[1], self.classes, generator=generator)
        return Split(inputs, (features @ teacher).argmax(1))

    def make_model(self) -> nn.Module:
        torch.manual_seed(SEED)
        return models.build(
            self.model, input_shape=self.input_shape, classes=self.classes, options=self.options
        )

    def make_optimizer(self, model: nn.Module, *, fused: bool = False) -> SGD:
        return SGD(model.parameters(), lr=self.learning_rate, momentum=0.9, fused=fused or None)

    def make_loss(self) -> Loss:
        return make_loss("cross-entropy")


_ALL = (
    Workload(
        name="iris-mlp",
        model="mlp",
        options={"hidden": (16, 16)},
        input_shape=(4,),
        classes=3,
        batch_size=16,
        steps=100,
        learning_rate=0.02,
        budget=225,
    ),
    Workload(
        name="sigmoid",
        model="mlp",
        options={"hidden": (25,), "activation": "sigmoid"},
        input_shape=(400,),
        classes=10,
        batch_size=5000,
        steps=1,
        warm_up=10,
        timed=60,
        learning_rate=0.5,
        budget=80,
    ),
    Workload(
        name="simplecnn",
        model="simplecnn",
        input_shape=(1, 28, 28),
        classes=10,
        batch_size=64,
        steps=25,
        learning_rate=0.02,
        budget=120,
    ),
    Workload(
        name="resnet20",
        model="resnet20",
        input_shape=(3, 32, 32),
        classes=10,
        batch_size=64,
        steps=1,
        learning_rate=0.02,
        # Normalising by statistics of few pixels lets rounding grow faster than elsewhere.
        tolerance=1e-2,
        depends_on_ranks=True,
        budget=180,
    ),
    Workload(
        name="vgg11",
        model="vgg11",
        input_shape=(3, 32, 32),
        classes=10,
        batch_size=64,
        steps=1,
        learning_rate=0.02,
        budget=330,
    ),
)

_TRANSFORMER: dict[str, Any] = {
    "model": "transformer",
    "options": {"blocks": 4, "attention_heads": 4, "embedding_size": 128, "dropout_rate": 0.0},
    "input_shape": (64,),
    "classes": 256,
    "batch_size": 32,
    "steps": 4,
    "learning_rate": 0.02,
    "budget": 60,
}
_ALL_IN_PARTS = (
    Workload(
        name="pipeline-vgg11",
        model="vgg11",
        input_shape=(3, 32, 32),
        classes=10,
        batch_size=64,
        steps=1,
        learning_rate=0.02,
        budget=60,
        strategy="pipeline",
        cut=11,
        micro_batches=8,
    ),
    Workload(
        name="pipeline-transformer",
        strategy="pipeline",
        cut=3,
        micro_batches=8,
        **_TRANSFORMER,
    ),
    Workload(
        name="tensor-mlp",
        model="mlp",
        options={"hidden": (2048, 2048, 2048)},
        input_shape=(1024,),
        classes=10,
        batch_size=128,
        steps=4,
        learning_rate=0.02,
        budget=60,
        strategy="tensor",
    ),
    Workload(name="tensor-transformer", strategy="tensor", **_TRANSFORMER),
)
#: Those of which every rank has a whole model, and those of which it has a part.
WORKLOADS = {workload.name: workload for workload in _ALL}
IN_PARTS = {workload.name: workload for workload in _ALL_IN_PARTS}
