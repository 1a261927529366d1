"""From settings to a trained model in a run folder: what `phalanx train` does on each rank."""

import time
from dataclasses import asdict
from typing import Any, cast

import torch
from torch import nn
from torch.optim import Optimizer

from phalanx import data, models
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.data.split import Dataset, hold_out
from phalanx.strategies.base import Loss, Reduction
from phalanx.strategies.registry import default_strategy, make
from phalanx.train.compute import MemoryFormat, memory_of_host, prepare_process
from phalanx.train.losses import make_loss
from phalanx.train.metrics import Metrics
from phalanx.train.optimizers import make_optimizer
from phalanx.train.progress import Progress
from phalanx.train.runs import RunFolder
from phalanx.train.settings import Settings
from phalanx.train.trainer import Epoch, Trainer
from phalanx.train.weights import save_weights, weights_digest


class Session:
    """One rank's share of a run, made ready: data, model and communicator."""

    def __init__(self, settings: Settings, *, threads: int | None) -> None:
        """Collective."""
        self.settings = settings
        self.comm: Communicator = world()
        if threads is None and settings.shards is not None:
            threads = 1  # bits depend on the threads, and the same ones are promised on any ranks
        prepare_process(self.comm, threads)
        self.strategy = settings.strategy or default_strategy(
            self.comm.size, settings.strategy_options
        )
        self.dtype: torch.dtype = getattr(torch, settings.dtype)
        self.dataset: Dataset = data.load(settings.dataset, data_dir=settings.data_dir)
        self.model = self._build_model()

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
        )
        return model.to(self.dtype)

    def train(self, run: RunFolder | None, progress: Progress) -> dict[str, Any]:
        """Collective. Train, evaluate and save; rank 0 has the run folder. The result's values."""
        settings = self.settings
        train, validation = hold_out(
            self.dataset.train, settings.validation_split, seed=settings.seed
        )
        optimizer: Optimizer = make_optimizer(settings, self.model.parameters())
        trainer = Trainer(
            self.model,
            optimizer,
            loss=self.loss,
            strategy=make(self.strategy, settings.strategy_options),
            comm=self.comm,
            seed=settings.seed,
            shards=settings.shards,
            clip_norm=settings.clip_norm,
            accumulate=settings.accumulate,
            compile=settings.compile,
            memory_format=cast(MemoryFormat, settings.memory_format),
        )
        before = trainer.evaluate(self.dataset.test) if settings.evaluate_first else None
        started = time.perf_counter()
        epochs = trainer.fit(
            train,
            epochs=settings.epochs,
            batch_size=settings.global_batch(self.comm.size),
            validation=validation,
            progress=progress,
            on_epoch=run.add_epoch if run else None,
        )
        seconds = time.perf_counter() - started
        test = trainer.evaluate(self.dataset.test)
        return self._finish(run, before=before, test=test, epochs=epochs, seconds=seconds)

    def _finish(
        self,
        run: RunFolder | None,
        *,
        before: Metrics | None,
        test: Metrics,
        epochs: list[Epoch],
        seconds: float,
    ) -> dict[str, Any]:
        training = sum(epoch.seconds for epoch in epochs)
        samples = sum(epoch.train.count for epoch in epochs)
        result = {
            "strategy": self.strategy,
            "ranks": self.comm.size,
            "threads": torch.get_num_threads(),
            "seconds": seconds,
            "samples_per_second": samples / training if training else 0.0,
            "test": asdict(test),
            "test_before": None if before is None else asdict(before),
            "memory_bytes": memory_of_host(self.comm),
            "weights_sha256": weights_digest(self.model),
        }
        if run is not None:
            save_weights(self.model, run.weights)
            run.write_result(result)
        return result
