"""One rank's share of a run, made ready: its ranks and device, its data, its model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, final

import torch
from torch import nn

from phalanx import models
from phalanx.clock import phase
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.device.on_device import on_device
from phalanx.comm.launch.process import release_freed_memory
from phalanx.comm.watch import Watch
from phalanx.data.loading.host import loaded_once, once_a_host
from phalanx.data.location import data_path
from phalanx.data.prepare import prepare
from phalanx.data.split import Dataset, Split, held_out_count, hold_out
from phalanx.data.targets.scale import standardised
from phalanx.data.targets.settle import settled
from phalanx.runs.inputs import input_values
from phalanx.runs.weights import load_weights
from phalanx.runs.writing import writing
from phalanx.settings.table import Settings
from phalanx.settings.task_options import loss_of
from phalanx.settings.tokens import has_tokens
from phalanx.strategies.base import Loss, Objective, Reduction
from phalanx.strategies.registry import default_strategy, gpu_obstacle
from phalanx.train.checks.outputs import check_outputs
from phalanx.train.compute import (
    choose_device,
    compute_in_tf32,
    prepare_process,
    spare_threads,
)
from phalanx.train.losses import make_loss
from phalanx.train.measures.task import measured, tell_task, with_task
from phalanx.train.own_code import objective_of
from phalanx.train.profiling.profile import Profile

#: Collective. Gives the samples to use a model on, in the type that they are to be taken in.
Load = Callable[[Communicator, torch.dtype], Dataset]


@final
@dataclass(frozen=True, eq=False)
class Session:
    """What a command works with on one rank, the same settings on every rank."""

    settings: Settings
    comm: Communicator
    device: torch.device
    #: The strategy's name, chosen if the settings name none.
    strategy: str
    dataset: Dataset
    #: The shape of a sample as it is stored, before it is prepared.
    stored_shape: tuple[int, ...]
    model: nn.Module
    #: What counts time and bytes, if that was asked for.
    profile: Profile | None = None

    @property
    def is_first(self) -> bool:
        """Whether this rank is the one that writes."""
        return self.comm.rank == 0

    @property
    def dtype(self) -> torch.dtype:
        return _dtype(self.settings)

    @property
    def loss(self) -> Loss:
        name = loss_of(self.settings.task, self.settings.loss)
        return make_loss(name, cast(Reduction, self.settings.reduction))

    @property
    def objective(self) -> Objective | None:
        """A user's own, in place of the loss."""
        return objective_of(self.settings)

    @property
    def metrics(self) -> tuple[str, ...]:
        """What is measured: what was asked for, and what the task always is."""
        return measured(self.settings, self.dataset)

    @property
    def training_count(self) -> int:
        """The samples to train on, without those that are held out for validation."""
        train = self.dataset.train
        return len(train) - held_out_count(train, self.settings.validation_split)

    @property
    def batch_size(self) -> int:
        """The samples of a step, over all ranks."""
        return self.settings.global_batch(self.comm.size, samples=self.training_count)


def open_session(
    settings: Settings,
    *,
    threads: int | None,
    load: Load | None = None,
    watch: Watch | None = None,
) -> Session:
    """Collective. Get ready: what to train on is up to the settings; what to use a model on, to
    `load`. The `watch` begins as soon as there are ranks to watch."""
    comm: Communicator = world()
    if watch is not None:
        watch.start(comm)
    if threads is None and settings.shards is not None:
        threads = 1  # bits depend on the threads, and the same ones are promised on any ranks
    prepare_process(comm, threads)
    device, strategy = _choose(comm, settings)
    if settings.precision == "tf32" and load is None:
        compute_in_tf32(device)
    if load is not None:  # the trace that settings of a run may name is that of its training
        settings = settings.changed(trace=None)
    comm, profile = _profiled(on_device(comm, device), settings, device)
    with phase("load"):
        if load is None:
            dataset, stored_shape = _load(settings, comm)
        else:
            dataset = load(comm, _dtype(settings))
            stored_shape = dataset.test.stored_shape
    settings = with_task(settings, dataset)
    with phase("prepare"):
        model = _build_model(settings, dataset, device)
    session = Session(settings, comm, device, strategy, dataset, stored_shape, model, profile)
    if threads is None and load is None:
        spare_threads(model, dataset.input_shape, samples=-(-session.batch_size // comm.size))
    return session


def sample_facts(session: Session) -> dict[str, Any]:
    """What a run writes down about its samples, for `phalanx.runs.record` to read."""
    settings, dataset, shape = session.settings, session.dataset, session.stored_shape
    path, options = data_path(settings.dataset, settings.data_dir), settings.data_options
    if settings.dataset == "images":  # which are decoded to this size from any other
        options = {"resize": f"{shape[1]}x{shape[2]}", **options}
    return {
        "input_shape": list(dataset.input_shape),
        "task": settings.task,
        "classes": list(dataset.classes),
        "targets": None if dataset.scale is None else dataset.scale.for_json(),
        "inputs": input_values(
            dataset.test, stored_shape=shape, options=options, table=dataset.table
        ),
        "data": None if path is None else str(path.resolve()),
    }


def training_samples(session: Session) -> tuple[Split, Split | None]:
    """Collective. What is trained on, and what is looked at after every epoch."""
    settings, dataset = session.settings, session.dataset

    def parts() -> tuple[Split, Split | None]:
        return hold_out(dataset.train, settings.validation_split, seed=settings.seed)

    copied = settings.validation_split > 0 and dataset.train.source is None
    train, validation = once_a_host(session.comm, parts) if copied else parts()
    return train, dataset.test if settings.test_as_validation else validation


def on_ranks(session: Session, comm: Communicator) -> Session:
    """The same on other ranks, with a model as it was before the first step."""
    settings, device, dataset = session.settings, session.device, session.dataset
    if session.profile is not None:
        session.profile.abandon()
    comm, profile = _profiled(on_device(comm, device), settings, device)
    model = _build_model(settings, dataset, device)
    return replace(session, comm=comm, profile=profile, model=model)


def _profiled(
    comm: Communicator, settings: Settings, device: torch.device
) -> tuple[Communicator, Profile | None]:
    """What counts time and bytes, if that is asked for, and the ranks as it sees them."""
    if not settings.profile and settings.trace is None:
        return comm, None
    settle = torch.cuda.synchronize if device.type == "cuda" else None
    with writing(settings.trace or Path()):
        profile = Profile(comm, trace=settings.trace, settle=settle)
    return profile.comm, profile


def _choose(comm: Communicator, settings: Settings) -> tuple[torch.device, str]:
    """Collective. Where to compute, and with which strategy: one that goes with the other."""
    named, options = settings.strategy, settings.strategy_options
    name = named or default_strategy(comm.size, options, central=False)
    will_do = gpu_obstacle(name, options) is None
    device = choose_device(comm, settings.device, gpus_will_do=will_do)
    gpus = device.type != "cpu"
    return device, named or default_strategy(comm.size, options, central=not gpus)


def _dtype(settings: Settings) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, settings.dtype)
    return dtype


def _load(settings: Settings, comm: Communicator) -> tuple[Dataset, tuple[int, ...]]:
    """Collective. The data that the settings name, and the shape that its samples are stored in."""
    options = settings.data_options
    loaded = loaded_once(comm, settings.dataset, settings.data_dir, options=options)
    loaded = settled(loaded, settings.task)
    if settings.task is None and comm.rank == 0:
        tell_task(loaded)
    prepared = prepare(loaded, options, comm=comm, dtype=_dtype(settings))
    if prepared.train.source is None and prepared.train.inputs is not loaded.train.inputs:
        resized = prepared  # in memory of this rank's own, which is given back
        prepared = once_a_host(comm, lambda: resized)
    if not settings.raw_targets:
        prepared = standardised(prepared)
    release_freed_memory()  # of what was only needed to get here
    return prepared, loaded.train.stored_shape


def _build_model(settings: Settings, dataset: Dataset, device: torch.device) -> nn.Module:
    torch.manual_seed(settings.seed)
    shape, classes = dataset.input_shape, len(dataset.classes)
    model = models.build(
        settings.model, input_shape=shape, classes=classes, options=settings.model_options
    ).to(device, _dtype(settings))
    if ":" in settings.model:
        check_outputs(
            *(model, settings.model),
            input_shape=shape,
            classes=classes,
            answers=tuple(dataset.test.targets.shape[1:]) if has_tokens(settings) else (),
            dtype=dataset.test.taken_dtype(_dtype(settings)),
        )
    if settings.weights is not None:
        load_weights(model, settings.weights)
    return model
