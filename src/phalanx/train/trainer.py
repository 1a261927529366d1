"""The trainer: a model, an optimizer and a strategy's worker, and where their training stands."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.comm.device.on_device import kept_on_device
from phalanx.comm.script import world
from phalanx.data.batches import Batch
from phalanx.data.own.collected import Collate
from phalanx.errors import UsageError
from phalanx.models.in_parts import device_of, dtype_of
from phalanx.models.modes import have_train
from phalanx.pulse import pulse
from phalanx.settings.metrics import check_metrics, check_watched
from phalanx.state import State, gather
from phalanx.strategies.base import Loss, Objective, Outcome, Strategy, Worker
from phalanx.strategies.registry import SPLIT_MODELS, name_of
from phalanx.train.binding import bind, choose, make_task, part_count, trained_parameters
from phalanx.train.checkpointing import Checkpoints
from phalanx.train.checks.agreement import agree, facts_of_task
from phalanx.train.checks.arguments import check_made_of
from phalanx.train.checks.assumed_loss import AssumedLoss
from phalanx.train.checks.assumed_objective import AssumedObjective
from phalanx.train.companions.callbacks import Callback, Hooks
from phalanx.train.companions.measures import Measures, Wanted
from phalanx.train.companions.schedules import Schedule
from phalanx.train.companions.stopping import BestWeights, Stopping
from phalanx.train.companions.torch_schedules import Every, as_schedule
from phalanx.train.compute import MemoryFormat, lay_out
from phalanx.train.epoch import Epoch
from phalanx.train.fit_loop import Companion, FitLoop
from phalanx.train.interruption.stop_request import Asked
from phalanx.train.methods import held_out, moving, weights_file
from phalanx.train.metrics import Meter, Metrics
from phalanx.train.position import Position
from phalanx.train.progress import Progress, Silent
from phalanx.train.samples import Source, samples_of
from phalanx.train.survival import Survival


class Trainer(AbstractContextManager["Trainer"]):
    """Trains any `nn.Module` with any strategy, on all ranks of this job.

    Every rank makes one, with the same arguments; all its methods are collective. The model and
    the optimizer are used as in plain torch: the optimizer holds the model's parameters. A model
    that is on a GPU is trained there. Close it, or use it in a `with` block, to give communicators
    and shared memory back.

    It makes a `loss` of outputs and targets small, by default cross-entropy, or an `objective`: a
    function of the model and a batch, in whatever nest of tensors your data set gives it, that
    returns a loss, or a loss and the model's outputs (`Objective` says what it is a mean over).

    With `shards`, every global batch is cut into so many parts whatever the number of ranks, and
    the weights are bit for bit the same on any number of ranks up to it, if all use as many
    threads. `clip_norm` clips gradients by their global norm. `accumulate` computes each part in so
    many passes, which saves memory. `compile` compiles passes if that turns out faster. With
    `autocast` forward passes compute in that dtype where torch deems it safe. `memory_format` is
    how images are laid out: `preserve` leaves a model as it is, to the last bit. `metrics` are
    some of Phalanx's by name; `measures` are your own by name, functions of outputs and targets
    that give a number for each sample, or torchmetrics objects (with an objective, of the outputs
    that it returns and the batch).

    `fit` trains on where it ended before, by global batches of `batch_size`. It takes a
    `torch.utils.data.Dataset` (`collate` puts samples together, as a DataLoader's `collate_fn`
    does; `workers` of each rank read them), an `IterableDataset`, a `Split` or arrays. `steps` ends
    a call after so many, in an epoch if need be; `steps_per_epoch` ends epochs early. `keep_best`
    ends with the weights of the lowest loss, or of the best of another metric to `watch`.
    `progress=phalanx.ProgressBar()` shows how far it is. `on_epoch` is called on every rank with
    each epoch, `callbacks` on more occasions. A scheduler of torch's steps after every epoch, or
    `schedule_every` step. The state of `companions` is a part of the training's. `stop` is called
    on every rank, a few times a second: what is not 0 on any has all stop after the same step, and
    is `stopped`.
    """

    #: What `fit` gives copies in memory to, if ranks may be lost.
    survival: Survival | None = None
    #: What 1 stands for in each target, if they were standardised: errors are told in it.
    target_unit: Tensor | None = None
    #: What the `stop` of the last `fit` has ended it with; 0 if that went to its end.
    stopped = 0

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        loss: Loss | str | Callable[[Any, Any], Tensor] | None = None,
        objective: Objective | Callable[[nn.Module, Any], Any] | None = None,
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
        measures: Wanted | None = None,
    ) -> None:
        """Collective."""
        check_metrics(tuple(metrics))
        check_made_of(model, optimizer)
        lay_out(model, memory_format)
        self.model, self.optimizer = model, optimizer
        self.device = device_of(model)
        self.comm = kept_on_device(world(), self.device) if comm is None else comm
        self.seed = seed
        how = (seed, shards, clip_norm, accumulate, compile, autocast, memory_format == "auto")
        self.task = make_task(model, optimizer, loss, objective, how)
        #: Where the training stands, and what the epoch under way has come to so far.
        self.position = Position()
        self.metrics = tuple(metrics)
        self.meter = self.new_meter()
        self.measures = Measures(measures or {})
        self.companions: list[Companion] = []
        #: A state that was loaded, until what goes along has got its part of it.
        self.loaded: State | None = None
        #: Whether the model has other weights than the last, which a worker must not overwrite.
        self.restored = False
        self.bind(choose(strategy, self.comm, self.task))

    def bind(self, strategy: Strategy) -> None:
        """Collective. Get this rank's worker."""
        self.strategy = strategy
        agree(self.comm, "Trainer", facts_of_task(self.task, strategy=strategy))
        #: In how many parts a batch is computed.
        self.batch_parts = part_count(strategy, self.comm, self.task)
        self._worker: Worker | None = bind(strategy, self.comm, self.task)
        self.trained = trained_parameters(self.model, self.optimizer)
        self._assumed_loss = AssumedLoss(self.comm, self.task)
        in_parts = self.batch_parts > 1 and not self._worker.whole_batches
        self._assumed_objective = AssumedObjective(self.comm, self.task, in_parts=in_parts)

    @property
    def worker(self) -> Worker:
        """This rank's part in the strategy."""
        if self._worker is None:
            raise UsageError("this Trainer was closed: make a new one")
        return self._worker

    @property
    def dtype(self) -> torch.dtype:
        """What inputs are cast to: what the model computes in."""
        return dtype_of(self.model)

    def fit(
        self,
        train: Any,
        *,
        epochs: int,
        batch_size: int,
        collate: Collate | None = None,
        workers: int = 0,
        steps: int | None = None,
        validation: Any = None,
        steps_per_epoch: int | None = None,
        schedule: Schedule | LRScheduler | None = None,
        schedule_every: Every = "epoch",
        stopping: Stopping | None = None,
        keep_best: bool = False,
        watch: str = "loss",
        progress: Progress | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: Checkpoints | Path | str | None = None,
        companions: Sequence[Companion] = (),
        stop: Asked | None = None,
    ) -> list[Epoch]:
        """Collective. Train on, for so many epochs, as is said above."""
        check_watched(watch)
        if watch != "loss" and not keep_best and schedule is None:
            raise UsageError(
                f"watch={watch!r} is what keep_best and a plateau go by: give one of them, or "
                "leave it out (a Stopping has a watch of its own)"
            )
        if validation is not None:
            validation = self.samples(validation, "validate with", collate)
        return FitLoop(
            trainer=self,
            train=self.samples(train, "train on", collate),
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            workers=workers,
            validation=validation,
            schedule=as_schedule(schedule, schedule_every, self.optimizer),
            stopping=stopping,
            best=BestWeights(watch) if keep_best else None,
            watch=watch,
            others=companions,
            progress=Silent() if progress is None else progress,
            hooks=Hooks(callbacks, on_epoch),
        ).run(epochs=epochs, steps=steps, checkpoint=checkpoint, stop=stop)

    def begin_epoch(self) -> None:
        """Get ready to train: an epoch, or what is left of one."""
        self.restored = False
        have_train(self.model)
        if not self.position.inside_epoch:
            self.meter = self.new_meter()
            self.measures.reset()

    def new_meter(self) -> Meter:
        """What collects an epoch, or an evaluation."""
        return Meter(self.metrics, self.target_unit)

    def step(self, batch: Batch) -> Outcome:
        """Collective. One step on a global batch; this rank's part of its outcome."""
        weigh = self.task.loss.weigh
        if weigh is not None and not self.worker.whole_batches:
            with phase("load"):
                batch.agree_on_weight(self.comm, weigh, pieces=self.task.shards or self.comm.size)
        outcome = self.worker.step(batch)
        # Schedulers warn when the optimizer that they know has not stepped: strategies may step
        # slices of it instead, or have another rank do it.
        self.optimizer._opt_called = True  # type: ignore[attr-defined]
        self.position.after_step(batch.size)
        pulse.step = self.position.step
        if self._assumed_loss.steps_left:
            self._assumed_loss.look(outcome)
        if self._assumed_objective.steps_left:
            if name_of(self.strategy) in SPLIT_MODELS:
                self.sync()  # it takes whole models to look
            self._assumed_objective.look(outcome, batch)
        return outcome

    def samples(self, data: Any, use: str, collate: Collate | None) -> Source:
        """What a user has given to `use`, as batches are taken from it."""
        whole = self.task.objective is not None or self.worker.whole_batches
        return samples_of(data, use=use, whole=whole, collate=collate)

    def evaluate(self, data: Any, *, collate: Collate | None = None, workers: int = 0) -> Metrics:
        """Collective. Loss and accuracy over samples, each rank evaluating its part."""
        return held_out.evaluate_with(self, data, collate, workers=workers)

    def predict(self, data: Any, *, collate: Collate | None = None, workers: int = 0) -> Any:
        """Collective. The model's outputs in the samples' order, on rank 0; None elsewhere.

        With an objective they are the outputs that it returns beside the loss.
        """
        return held_out.predict_with(self, data, collate, workers=workers)

    def sync(self) -> None:
        """Collective. Afterwards every rank's model holds the trained weights."""
        if not self.restored:
            with phase("exchange"):
                self.worker.sync()

    def state(self) -> State:
        """Collective. Where the training stands, whole, whatever the strategy and the ranks."""
        moving.refuse_in_parts(self, "state")
        return gather(self.comm, self.parts())

    def parts(self) -> State:
        """Collective. This rank's parts of it, which together are the whole."""
        return moving.parts_of(self)

    def save(self, folder: Path | str) -> None:
        """Collective. Write a checkpoint of where the training stands into a folder."""
        moving.write(self, Path(folder))

    def save_weights(self, file: Path | str) -> None:
        """Collective. Write the weights alone as safetensors, with the names of `state_dict()`."""
        weights_file.write_weights(self, Path(file))

    def load(self, state: State | Path | str) -> None:
        """Collective. Go on from a state, taken with whatever strategy on however many ranks, or
        from a checkpoint: one by itself, or the newest of a folder.

        Seed and shards must be the same, or the training would not be. The next `fit` gives its
        schedule, its stopping and its best weights their part.
        """
        state = state if isinstance(state, State) else Path(state)
        self.loaded, self.restored = moving.put_into(self, state), False

    def rebind(
        self, strategy: Strategy | str | None = None, *, comm: Communicator | None = None
    ) -> None:
        """Collective. Go on with another strategy, or on other ranks, from where it stands.

        By default the strategy stays, and the communicator.
        """
        moving.move(self, strategy, comm)

    def gather_optimizer_state(self) -> None:
        """Collective. Give every rank's optimizer its whole state, for `state_dict()`."""
        moving.gather_optimizer(self)

    def close(self) -> None:
        """Collective. Give back communicators, hooks and shared memory.

        Every rank's model holds the trained weights afterwards, in memory of its own.
        """
        if self._worker is not None:
            self.sync()
            self._worker.close()
            self._worker = None

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is None:  # else others may not come here
            self.close()
