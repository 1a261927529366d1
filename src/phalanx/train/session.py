"""One rank's share of a run, made ready: its ranks and device, its data, its model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast, final

import torch
from torch import nn

from phalanx import data, models
from phalanx.clock import phase
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.device.on_device import on_device
from phalanx.data.prepare import prepare
from phalanx.data.split import Dataset, held_out_count
from phalanx.runs.weights import load_weights
from phalanx.settings.table import Settings
from phalanx.strategies.base import Loss, Reduction
from phalanx.strategies.registry import default_strategy, gpu_obstacle
from phalanx.train.compute import choose_device, prepare_process
from phalanx.train.losses import make_loss
from phalanx.train.outputs import check_outputs
from phalanx.train.profile import Profile

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
        return make_loss(self.settings.loss, cast(Reduction, self.settings.reduction))

    @property
    def training_count(self) -> int:
        """The samples to train on, without those that are held out for validation."""
        train = self.dataset.train
        return len(train) - held_out_count(train, self.settings.validation_split)

    @property
    def batch_size(self) -> int:
        """The samples of a step, over all ranks."""
        return self.settings.global_batch(self.comm.size, samples=self.training_count)


def open_session(settings: Settings, *, threads: int | None, load: Load | None = None) -> Session:
    """Collective. Get ready: what to train on is up to the settings; what to use a model on, to
    `load`."""
    comm: Communicator = world()
    if threads is None and settings.shards is not None:
        threads = 1  # bits depend on the threads, and the same ones are promised on any ranks
    prepare_process(comm, threads)
    device, strategy = _choose(comm, settings)
    comm = on_device(comm, device)
    profile = None
    if settings.profile or settings.trace is not None:
        settle = torch.cuda.synchronize if device.type == "cuda" else None
        profile = Profile(comm, trace=settings.trace is not None, settle=settle)
        comm = profile.comm
    with phase("load"):
        if load is None:
            dataset, stored_shape = _load(settings, comm)
        else:
            dataset = load(comm, _dtype(settings))
            stored_shape = dataset.test.stored_shape
    with phase("prepare"):
        model = _build_model(settings, dataset, device)
    return Session(settings, comm, device, strategy, dataset, stored_shape, model, profile)


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
    loaded = data.load(settings.dataset, data_dir=settings.data_dir, options=options)
    prepared = prepare(loaded, options, comm=comm, dtype=_dtype(settings))
    return prepared, loaded.train.stored_shape


def _build_model(settings: Settings, dataset: Dataset, device: torch.device) -> nn.Module:
    torch.manual_seed(settings.seed)
    shape, classes = dataset.input_shape, len(dataset.classes)
    model = models.build(
        settings.model, input_shape=shape, classes=classes, options=settings.model_options
    ).to(device, _dtype(settings))
    if ":" in settings.model:
        check_outputs(
            model, settings.model, input_shape=shape, classes=classes, dtype=_dtype(settings)
        )
    if settings.weights is not None:
        load_weights(model, settings.weights)
    return model
