"""What is trained in a benchmark: the same model, data, batches and optimizer for everybody.

Data and initial weights come from a seed. The order of samples is that of `phalanx.data.batches`,
in contiguous parts, so that every contender computes the same losses up to rounding.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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

    def quick(self) -> "Workload":
        """A few steps of it, to see that everything runs."""
        return replace(self, steps=min(self.steps, 5), warm_up=1, timed=2)

    def make_data(self) -> Split:
        """Random inputs, and targets that can be learned from them."""
        generator = torch.Generator().manual_seed(SEED)
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
WORKLOADS = {workload.name: workload for workload in _ALL}
