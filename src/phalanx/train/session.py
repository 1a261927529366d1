"""From settings to a trained model in a run folder: what `phalanx train` does on each rank."""

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, cast

import torch
from torch import nn

from phalanx import data, models
from phalanx.clock import phase
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.device.on_device import on_device
from phalanx.comm.launch.process import memory_share
from phalanx.data.batches import batch_count
from phalanx.data.location import data_path
from phalanx.data.prepare import prepare
from phalanx.data.split import Dataset, held_out_count, hold_out
from phalanx.runs.folder import RunFolder
from phalanx.runs.inputs import input_values
from phalanx.runs.weights import load_weights, save_weights, weights_digest
from phalanx.settings.table import Settings
from phalanx.strategies.base import Loss, Reduction, TextTable
from phalanx.strategies.registry import default_strategy, gpu_obstacle, make, workers
from phalanx.train.compute import MemoryFormat, choose_device, memory_of_host, prepare_process
from phalanx.train.confusion import confusion_table
from phalanx.train.epoch import Epoch
from phalanx.train.layer_times import layer_times
from phalanx.train.losses import make_loss
from phalanx.train.optimizers import make_optimizer
from phalanx.train.outputs import check_outputs
from phalanx.train.profile import Phases, Profile
from phalanx.train.progress import Progress
from phalanx.train.schedules import Schedule
from phalanx.train.stopping import Stopping
from phalanx.train.trainer import Trainer


def _choose(comm: Communicator, settings: Settings) -> tuple[torch.device, str]:
    """Collective. Where to compute, and with which strategy: one that goes with the other."""
    named, options = settings.strategy, settings.strategy_options
    name = named or default_strategy(comm.size, options, central=False)
    will_do = gpu_obstacle(name, options) is None
    device = choose_device(comm, settings.device, gpus_will_do=will_do)
    gpus = device.type != "cpu"
    return device, named or default_strategy(comm.size, options, central=not gpus)


#: Collective. Gives the samples to use a model on, in the type that they are to be taken in.
Load = Callable[[Communicator, torch.dtype], Dataset]


class Session:
    """One rank's share of a run, made ready: data, model and communicator."""

    def __init__(
        self, settings: Settings, *, threads: int | None, load: Load | None = None
    ) -> None:
        """Collective. What to train on is up to the settings; what to use a model on, to `load`."""
        self.settings = settings
        self.comm: Communicator = world()
        if threads is None and settings.shards is not None:
            threads = 1  # bits depend on the threads, and the same ones are promised on any ranks
        prepare_process(self.comm, threads)
        self.device, self.strategy = _choose(self.comm, settings)
        self.comm = on_device(self.comm, self.device)
        self._profile: Profile | None = None
        if settings.profile or settings.trace is not None:
            self._profile = Profile(
                self.comm,
                trace=settings.trace is not None,
                settle=torch.cuda.synchronize if self.device.type == "cuda" else None,
            )
            self.comm = self._profile.comm
        self.dtype: torch.dtype = getattr(torch, settings.dtype)
        with phase("load"):
            self.dataset = self._load() if load is None else load(self.comm, self.dtype)
        with phase("prepare"):
            self.model = self._build_model()

    def _load(self) -> Dataset:
        options = self.settings.data_options
        loaded = data.load(self.settings.dataset, data_dir=self.settings.data_dir, options=options)
        self._stored_shape = loaded.train.stored_shape
        return prepare(loaded, options, comm=self.comm, dtype=self.dtype)

    @property
    def is_first(self) -> bool:
        """Whether this rank is the one that writes."""
        return self.comm.rank == 0

    @property
    def loss(self) -> Loss:
        return make_loss(self.settings.loss, cast(Reduction, self.settings.reduction))

    def _build_model(self) -> nn.Module:
        torch.manual_seed(self.settings.seed)
        model = models.build(
            self.settings.model,
            input_shape=self.dataset.input_shape,
            classes=len(self.dataset.classes),
            options=self.settings.model_options,
        ).to(self.device, self.dtype)
        if ":" in self.settings.model:
            check_outputs(
                model,
                self.settings.model,
                input_shape=self.dataset.input_shape,
                classes=len(self.dataset.classes),
                dtype=self.dtype,
            )
        if self.settings.weights is not None:
            load_weights(model, self.settings.weights)
        return model

    def train(
        self,
        run: RunFolder | None,
        progress: Progress,
        show: Callable[[TextTable], None] = lambda table: None,
    ) -> dict[str, Any]:
        """Collective. Train, evaluate and save; rank 0 has the run folder. The result's values.

        `show` gets what the strategy and the profile have to say, as soon as they can say it.
        """
        with phase("prepare"):
            trainer = self._make_trainer()
            tables = [*trainer.plan()]
        for table in tables:
            show(table)
        test = self.dataset.test
        before = trainer.evaluate(test) if self.settings.evaluate_first else None
        path = data_path(self.settings.dataset, self.settings.data_dir)
        result: dict[str, Any] = {
            "strategy": self.strategy,
            "device": self.device.type,
            "ranks": self.comm.size,
            "training_ranks": sum(self.comm.allgather_objects(trainer.trains)),
            "threads": torch.get_num_threads(),
            "input_shape": list(self.dataset.input_shape),
            "classes": list(self.dataset.classes),
            "inputs": self._inputs(),
            "data": None if path is None else str(path.resolve()),
            "test_before": None if before is None else asdict(before),
        }
        result |= self._fit(trainer, run, progress)
        trainer.sync()
        if run is not None:  # at once: whatever fails from here on, the training is not lost
            save_weights(self.model, run.weights)
        after = trainer.evaluate(test)
        result["test"] = asdict(after)
        confusion = [confusion_table(after, self.dataset.classes)] if after.confusion else []
        told = [*trainer.report(), *confusion]
        result["tables"] = [asdict(table) for table in (*tables, *told)]
        phases = None if self._profile is None else self._profile.finish()
        if phases is not None:
            result["phases"] = asdict(phases)
        self._finish(run, result)  # and then what only shows it
        for table in told:
            show(table)
        if self._profile is not None and phases is not None:
            self._show_profile(self._profile, phases, show)
        return result

    def _show_profile(
        self, profile: Profile, phases: Phases, show: Callable[[TextTable], None]
    ) -> None:
        """Collective. Show where the time went, and write the trace."""
        if self.settings.profile:
            show(phases.table())
            if self.is_first:
                at_once = -(-self.batch_size // (self.comm.size * self.settings.accumulate))
                mine = torch.arange(min(self.training_count, at_once))
                samples = self.dataset.train.take(mine, dtype=self.dtype).to(self.device)
                show(layer_times(self.model, self.loss, samples))
        if self.settings.trace is not None:
            profile.write_trace(self.settings.trace)

    @property
    def training_count(self) -> int:
        """The samples to train on, without those that are held out for validation."""
        train = self.dataset.train
        return len(train) - held_out_count(train, self.settings.validation_split)

    @property
    def batch_size(self) -> int:
        """The samples of a step, over all ranks."""
        return self.settings.global_batch(self.comm.size, samples=self.training_count)

    def _fit(
        self, trainer: Trainer, run: RunFolder | None, progress: Progress
    ) -> dict[str, float | None]:
        """Train; how long it took, and how much was sent for it."""
        settings = self.settings
        train, validation = hold_out(
            self.dataset.train, settings.validation_split, seed=settings.seed
        )
        if settings.test_as_validation:
            validation = self.dataset.test
        steps = batch_count(len(train), self.batch_size)
        steps = min(steps, settings.steps_per_epoch or steps)
        sent = self._bytes_sent()
        started = time.perf_counter()
        epochs = trainer.fit(
            train,
            epochs=settings.epochs,
            batch_size=self.batch_size,
            validation=validation,
            steps_per_epoch=steps,
            schedule=Schedule(self.optimizer, settings, steps_per_epoch=steps),
            stopping=Stopping(patience=settings.patience, goal=settings.goal),
            keep_best=settings.keep_best,
            progress=progress,
            on_epoch=partial(self._note, run) if run else None,
        )
        seconds = time.perf_counter() - started
        sent = self._bytes_sent() - sent
        training = sum(epoch.seconds for epoch in epochs)
        samples = sum(epoch.train.count for epoch in epochs)
        steps *= max(len(epochs), 1)
        return {
            "epochs": len(epochs),
            "seconds": seconds,
            "samples_per_second": samples / training if training else 0.0,
            "bytes_per_step": sent / steps if self._profile is not None else None,
        }

    def _note(self, run: RunFolder, epoch: Epoch) -> None:
        """Write down how an epoch went, and with a profile where its time did."""
        run.add_epoch(epoch.row({} if self._profile is None else self._profile.lap()))

    def _inputs(self) -> dict[str, Any]:
        """How samples are made of what is stored, for whoever uses the model."""
        options, shape = self.settings.data_options, self._stored_shape
        if self.settings.dataset == "images":  # which are decoded to this size from any other
            options = {"resize": f"{shape[1]}x{shape[2]}", **options}
        return input_values(
            self.dataset.test, stored_shape=shape, options=options, table=self.dataset.table
        )

    def _make_trainer(self) -> Trainer:
        settings = self.settings
        count = workers(self.strategy, self.comm.size, settings.strategy_options)
        self.optimizer = make_optimizer(settings, self.model.parameters(), workers=count)
        return Trainer(
            self.model,
            self.optimizer,
            loss=self.loss,
            strategy=make(self.strategy, settings.strategy_options),
            comm=self.comm,
            seed=settings.seed,
            shards=settings.shards,
            clip_norm=settings.clip_norm,
            accumulate=settings.accumulate,
            compile=settings.compile,
            autocast=None if settings.autocast is None else getattr(torch, settings.autocast),
            memory_format=cast(MemoryFormat, settings.memory_format),
            metrics=settings.metrics,
        )

    def _bytes_sent(self) -> int:
        return 0 if self._profile is None else self._profile.bytes_sent()

    def _finish(self, run: RunFolder | None, result: dict[str, Any]) -> None:
        """Collective. Add what is known at the very end, and save the result."""
        result |= {
            "memory_bytes": memory_of_host(self.comm),
            "memory_bytes_per_rank": max(self.comm.allgather_objects(memory_share())),
            "weights_sha256": weights_digest(self.model),
        }
        if run is not None:
            run.write_result(result)
