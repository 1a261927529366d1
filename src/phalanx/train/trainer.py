"""The training loop: epochs of global batches through a strategy's worker."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.data.batches import batch_count, batches
from phalanx.data.split import Split
from phalanx.strategies.base import Loss, Strategy, Task
from phalanx.strategies.registry import check, default_strategy, make
from phalanx.strategies.sliced import is_elementwise
from phalanx.train import inference
from phalanx.train.compute import MemoryFormat, lay_out
from phalanx.train.losses import make_loss
from phalanx.train.metrics import Meter, Metrics
from phalanx.train.progress import Progress, Silent


@dataclass(frozen=True)
class Epoch:
    """One epoch as it went: the training's metrics are those seen while it went on."""

    number: int
    train: Metrics
    validation: Metrics | None
    seconds: float

    @property
    def samples_per_second(self) -> float:
        return self.train.count / self.seconds


class Trainer:
    """Trains any `nn.Module` with any strategy, on all ranks of this job.

    Every rank makes one, with the same arguments; all its methods are collective. The model and
    the optimizer are used as in plain torch: the optimizer holds the model's parameters.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        loss: Loss | str = "cross-entropy",
        strategy: Strategy | str | None = None,
        comm: Communicator | None = None,
        seed: int = 0,
        shards: int | None = None,
        clip_norm: float | None = None,
        accumulate: int = 1,
        compile: bool = False,  # noqa: A002
        memory_format: MemoryFormat = "auto",
    ) -> None:
        """Collective.

        With `shards`, every global batch is cut into so many parts whatever the number of ranks,
        and the weights are bit for bit the same on any number of ranks up to it, if all use as
        many threads. `clip_norm` clips gradients by their global norm. `accumulate` computes each
        part in so many passes, which saves memory; only BatchNorm can tell. `compile` compiles
        forward and backward into one function if that turns out faster. `memory_format` is how
        images are laid out: `preserve` leaves a model as it is, to the last bit.
        """
        self.comm = world() if comm is None else comm
        self.model = model
        lay_out(model, memory_format)
        self._loss = make_loss(loss) if isinstance(loss, str) else loss
        self._seed = seed
        task = Task(
            model=model,
            optimizer=optimizer,
            loss=self._loss,
            seed=seed,
            shards=shards,
            clip_norm=clip_norm,
            accumulate=accumulate,
            compile=compile,
        )
        if strategy is None and not is_elementwise(optimizer):
            strategy = "single" if self.comm.size == 1 else "allreduce"
        self._worker = _strategy(strategy, self.comm.size).bind(self.comm, task)

    @property
    def dtype(self) -> torch.dtype:
        """What inputs are cast to: the dtype of the model's first parameter."""
        first: Tensor | None = next(self.model.parameters(), None)
        return torch.get_default_dtype() if first is None else first.dtype

    def fit(
        self,
        train: Split,
        *,
        epochs: int,
        batch_size: int,
        validation: Split | None = None,
        progress: Progress | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> list[Epoch]:
        """Collective. Train for so many epochs; `batch_size` is the global one.

        `on_epoch` is called on every rank with each epoch as soon as it is done.
        """
        progress = Silent() if progress is None else progress
        done = []
        for number in range(1, epochs + 1):
            progress.start(number, epochs, steps=batch_count(len(train), batch_size))
            started = time.perf_counter()
            metrics = self._train_epoch(train, number - 1, batch_size, progress)
            seconds = time.perf_counter() - started
            checked = None if validation is None else self.evaluate(validation)
            epoch = Epoch(number=number, train=metrics, validation=checked, seconds=seconds)
            progress.finish(epoch.train, epoch.validation, epoch.samples_per_second)
            if on_epoch is not None:
                on_epoch(epoch)
            done.append(epoch)
        return done

    def _train_epoch(
        self, train: Split, epoch: int, batch_size: int, progress: Progress
    ) -> Metrics:
        self.model.train()
        meter = Meter()
        done = 0
        for batch in batches(
            train, batch_size=batch_size, seed=self._seed, epoch=epoch, dtype=self.dtype
        ):
            outcome = self._worker.step(batch)
            meter.add(outcome.loss, outcome.outputs, outcome.targets)
            done += batch.size
            progress.step(done, meter)
        return meter.total(self.comm)

    def evaluate(self, split: Split) -> Metrics:
        """Collective. Loss and accuracy over a split, each rank evaluating its part."""
        self._worker.sync()
        return inference.evaluate(self.comm, self.model, split, loss=self._loss, dtype=self.dtype)

    def predict(self, split: Split) -> Tensor | None:
        """Collective. The model's outputs in the split's order, on rank 0; None elsewhere."""
        self._worker.sync()
        return inference.predict(self.comm, self.model, split, dtype=self.dtype)

    def sync(self) -> None:
        """Collective. Afterwards every rank's model holds the trained weights."""
        self._worker.sync()


def _strategy(strategy: Strategy | str | None, ranks: int) -> Strategy:
    if isinstance(strategy, Strategy):
        return strategy
    name = default_strategy(ranks) if strategy is None else strategy
    check(name, ranks)
    return make(name)
