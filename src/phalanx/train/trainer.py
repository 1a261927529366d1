"""The training loop: epochs of global batches through a strategy's worker."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.clock import phase
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.device.on_device import on_device
from phalanx.data.batches import Batch, batch_count, batches
from phalanx.data.split import Split
from phalanx.errors import DivergedError, UsageError
from phalanx.settings.metrics import check_metrics
from phalanx.strategies.base import Loss, Strategy, Task, TextTable
from phalanx.strategies.building_blocks.sliced_optimizer import check_whole, is_elementwise
from phalanx.strategies.registry import (
    check,
    default_strategy,
    gpu_obstacle,
    make,
    name_of,
)
from phalanx.train import evaluation as inference
from phalanx.train.compute import MemoryFormat, device_of, lay_out
from phalanx.train.epoch import Epoch
from phalanx.train.losses import as_loss
from phalanx.train.metrics import Meter, Metrics
from phalanx.train.parameters import check_held, trained_parameters
from phalanx.train.progress import Progress, Silent
from phalanx.train.schedules import Schedule
from phalanx.train.stopping import BestWeights, Stopping

log = logging.getLogger("phalanx.train")


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
        loss: Loss | str | Callable[[Tensor, Tensor], Tensor] = "cross-entropy",
        strategy: Strategy | str | None = None,
        comm: Communicator | None = None,
        seed: int = 0,
        shards: int | None = None,
        clip_norm: float | None = None,
        accumulate: int = 1,
        compile: bool = False,  # noqa: A002
        autocast: torch.dtype | None = None,
        memory_format: MemoryFormat = "auto",
        metrics: Sequence[str] = (),
    ) -> None:
        """Collective.

        With `shards`, every global batch is cut into so many parts whatever the number of ranks,
        and the weights are bit for bit the same on any number of ranks up to it, if all use as
        many threads. `clip_norm` clips gradients by their global norm. `accumulate` computes each
        part in so many passes, which saves memory; only BatchNorm can tell. `compile` compiles
        forward and backward into one function if that turns out faster. With `autocast` forward
        passes compute in that dtype where torch deems it safe. `memory_format` is how images are
        laid out: `preserve` leaves a model as it is, to the last bit. `metrics` names what is
        measured besides loss and accuracy. A model that is on a GPU is trained there.
        """
        self._device = device_of(model)
        self.comm = on_device(world(), self._device) if comm is None else comm
        self.model = model
        lay_out(model, memory_format)
        self._loss = as_loss(loss)
        self._optimizer = optimizer
        self._metrics = tuple(metrics)
        check_metrics(self._metrics)
        self._restored = False
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
            autocast=autocast,
        )
        gpus = self._device.type != "cpu"
        if strategy is None:
            central = is_elementwise(optimizer) and not gpus
            strategy = default_strategy(self.comm.size, central=central)
        check_whole(optimizer)
        made = _strategy(strategy, self.comm.size)
        _check_fit(name_of(made), gpus=gpus)
        if name_of(made) != "single":
            check_held(model, optimizer)
        self._worker = made.bind(self.comm, task)
        self._parameters = trained_parameters(model, optimizer)

    @property
    def trains(self) -> bool:
        """Whether this rank computes gradients, or only serves those that do."""
        return self._worker.trains

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
        steps_per_epoch: int | None = None,
        schedule: Schedule | None = None,
        stopping: Stopping | None = None,
        keep_best: bool = False,
        progress: Progress | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> list[Epoch]:
        """Collective. Train for so many epochs; `batch_size` is the global one.

        `steps_per_epoch` ends an epoch before all samples have been seen. `keep_best` ends with
        the weights of the epoch with the lowest loss. `on_epoch` is called on every rank with each
        epoch as soon as it is done.
        """
        if trained_parameters(self.model, self._optimizer) != self._parameters:
            raise UsageError(
                "parameters have been frozen, set free, added or taken away since this Trainer was "
                "made: make a new one (gather_optimizer_state() before has it go on from there)"
            )
        progress = Silent() if progress is None else progress
        best = BestWeights() if keep_best else None
        steps = batch_count(len(train), batch_size)
        steps = steps if steps_per_epoch is None else min(steps, steps_per_epoch)
        done: list[Epoch] = []
        for number in range(1, epochs + 1):
            progress.start(number, epochs, steps=steps)
            started = time.perf_counter()
            found = self._batches(train, batch_size, epoch=number - 1)
            metrics = self._train_epoch(islice(found, steps), schedule, progress)
            seconds = time.perf_counter() - started
            checked = None if validation is None else self.evaluate(validation)
            rate: float = self._optimizer.param_groups[0]["lr"]
            epoch = Epoch(number, metrics, checked, seconds, learning_rate=rate)
            progress.finish(epoch.train, epoch.validation, epoch.samples_per_second)
            done.append(epoch)
            if self._after_epoch(epoch, schedule, stopping, best=best, on_epoch=on_epoch):
                break
        if best is not None and done:
            self._use(best)
        return done

    def _batches(self, train: Split, batch_size: int, *, epoch: int) -> Iterator[Batch]:
        with phase("load"):
            return batches(
                train,
                batch_size=batch_size,
                seed=self._seed,
                epoch=epoch,
                dtype=self.dtype,
                device=None if self._device.type == "cpu" else self._device,
            )

    def _train_epoch(
        self, batches: Iterable[Batch], schedule: Schedule | None, progress: Progress
    ) -> Metrics:
        self._restored = False
        self.model.train()
        meter = Meter(self._metrics)
        done = 0
        for batch in batches:
            with phase("step"):  # what is in no phase of its own
                outcome = self._worker.step(batch)
                # Schedulers warn when the optimizer that they know has not stepped: strategies may
                # step slices of it instead, or have another rank do it.
                self._optimizer._opt_called = True  # type: ignore[attr-defined]
                if schedule is not None:
                    schedule.after_step()
            with phase("metrics"):
                meter.add(outcome.loss, outcome.outputs, outcome.targets)
                done += batch.size
                progress.step(done, meter)
        with phase("exchange"):
            return meter.total(self.comm)

    def _after_epoch(
        self,
        epoch: Epoch,
        schedule: Schedule | None,
        stopping: Stopping | None,
        *,
        best: BestWeights | None,
        on_epoch: Callable[[Epoch], None] | None,
    ) -> bool:
        """Collective. All that follows an epoch; whether it was the last one."""
        if on_epoch is not None:
            on_epoch(epoch)
        if not math.isfinite(epoch.train.loss):
            return self._end_diverged(epoch, best)
        if best is not None:
            self.sync()
            best.offer(epoch, self.model)
        if schedule is not None:
            schedule.after_epoch(epoch.watched.loss)
        reason = None if stopping is None else stopping.reason(epoch)
        if reason is not None and self.comm.rank == 0:
            log.info("stopped after epoch %d: %s", epoch.number, reason)
        return reason is not None

    def _end_diverged(self, epoch: Epoch, best: BestWeights | None) -> bool:
        """End a training that has gone wrong: with the best weights there were, or an error."""
        what = f"the loss of epoch {epoch.number} is {epoch.train.loss}"
        if best is None or best.epoch == 0:
            raise DivergedError(
                f"{what}: the training has diverged at a learning rate of "
                f"{epoch.learning_rate:g}; lower it, clip gradients (--clip-norm), or look for "
                "values in the data that are no numbers"
            )
        if self.comm.rank == 0:
            log.warning("stopped after epoch %d: %s", epoch.number, what)
        return True

    def _use(self, best: BestWeights) -> None:
        """Collective. Go back to the best weights, which the worker then must not overwrite."""
        self.sync()
        self.comm.barrier()  # ranks may share the memory of the weights
        best.restore(self.model)
        self.comm.barrier()
        self._restored = True
        if self.comm.rank == 0:
            log.info("these are the weights of epoch %d", best.epoch)

    def evaluate(self, split: Split) -> Metrics:
        """Collective. Loss and accuracy over a split, each rank evaluating its part."""
        self.sync()
        with phase("evaluate"):
            return inference.evaluate(
                self.comm,
                self.model,
                split,
                loss=self._loss,
                dtype=self.dtype,
                metrics=self._metrics,
            )

    def predict(self, split: Split) -> Tensor | None:
        """Collective. The model's outputs in the split's order, on rank 0; None elsewhere."""
        self.sync()
        with phase("evaluate"):
            return inference.predict(self.comm, self.model, split, dtype=self.dtype)

    def sync(self) -> None:
        """Collective. Afterwards every rank's model holds the trained weights."""
        if not self._restored:
            with phase("exchange"):
                self._worker.sync()

    def gather_optimizer_state(self) -> None:
        """Collective. Give every rank's optimizer its whole state, for `state_dict()`.

        Strategies may keep it in pieces, one copy a host; the next step takes them up again.
        """
        self._worker.gather_optimizer_state()

    def plan(self) -> Sequence[TextTable]:
        """Collective. What the strategy has to say before the first step."""
        return self._worker.plan()

    def report(self) -> Sequence[TextTable]:
        """Collective. What the strategy has to say after the last step."""
        return self._worker.report()


def _check_fit(name: str, *, gpus: bool) -> None:
    obstacle = gpu_obstacle(name) if gpus else None
    if obstacle is not None:
        raise UsageError(f"{obstacle}, or keep the model in CPU memory")


def _strategy(strategy: Strategy | str, ranks: int) -> Strategy:
    if isinstance(strategy, Strategy):
        return strategy
    check(strategy, ranks)
    return make(strategy)
