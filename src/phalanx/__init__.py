"""Phalanx trains neural networks across MPI ranks: PyTorch computes, MPI communicates.

`Trainer` trains, by an `Objective` of one's own if need be; `Split` and `Dataset` hold samples;
`Checkpoints` says where checkpoints go, and how often; `StopOnSignal` has a signal end a training
in order; a `ProgressBar` shows how far it is; a `Callback` is called on the way, with each `Epoch`,
and `AveragedWeights` is one; `OwnStep` is a step of one's own, with several `Optimizers`. `load`
gives the `TrainedModel` of a run, `in_parts` a model that no rank holds as a whole, and
`pin_device` a GPU to each rank.
`Strategy`, `Worker`, `Task`, `Batch` and `Outcome` are what a strategy of one's own is written
against, and `FlatParameters`, `PartGradients`, `WholeModel`, `broadcast_model`, `average_buffers`,
`whole_state` and `load_whole` what the built-in ones are made of (examples/own_strategy.py). A
`State` is where a training stands: whole, or in `Slice`s and `Share`s that `gather` puts together.
"""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phalanx.cli.output.progress import ProgressBar as ProgressBar
    from phalanx.comm.base import Communicator as Communicator
    from phalanx.comm.calls.launch import launch as launch
    from phalanx.comm.script import world as world
    from phalanx.data.batches import Batch as Batch
    from phalanx.data.sampler import DistributedSampler as DistributedSampler
    from phalanx.data.split import Dataset as Dataset
    from phalanx.data.split import Split as Split
    from phalanx.errors import PhalanxError as PhalanxError
    from phalanx.errors import RankFailedError as RankFailedError
    from phalanx.errors import UsageError as UsageError
    from phalanx.exchange.flat import FlatParameters as FlatParameters
    from phalanx.inference.loading import TrainedModel as TrainedModel
    from phalanx.inference.loading import load as load
    from phalanx.models.in_parts import in_parts as in_parts
    from phalanx.state import Share as Share
    from phalanx.state import Slice as Slice
    from phalanx.state import State as State
    from phalanx.state import gather as gather
    from phalanx.strategies.base import Loss as Loss
    from phalanx.strategies.base import Objective as Objective
    from phalanx.strategies.base import Outcome as Outcome
    from phalanx.strategies.base import Strategy as Strategy
    from phalanx.strategies.base import Task as Task
    from phalanx.strategies.base import Worker as Worker
    from phalanx.strategies.building_blocks.part_gradients import PartGradients as PartGradients
    from phalanx.strategies.building_blocks.whole_model import WholeModel as WholeModel
    from phalanx.strategies.building_blocks.whole_model import average_buffers as average_buffers
    from phalanx.strategies.building_blocks.whole_model import broadcast_model as broadcast_model
    from phalanx.strategies.building_blocks.whole_model import load_whole as load_whole
    from phalanx.strategies.building_blocks.whole_model import whole_state as whole_state
    from phalanx.strategies.own_step import Optimizers as Optimizers
    from phalanx.strategies.own_step import OwnStep as OwnStep
    from phalanx.train.checkpointing import Checkpoints as Checkpoints
    from phalanx.train.companions.averaged_weights import AveragedWeights as AveragedWeights
    from phalanx.train.companions.callbacks import Callback as Callback
    from phalanx.train.compute import pin_device as pin_device
    from phalanx.train.epoch import Epoch as Epoch
    from phalanx.train.interruption.stop_on_signal import StopOnSignal as StopOnSignal
    from phalanx.train.trainer import Trainer as Trainer

__version__ = _version("phalanx")

#: Public names and where they live. Loaded on first use: the command line must start without torch.
_HOMES = {
    "AveragedWeights": "phalanx.train.companions.averaged_weights",
    "Batch": "phalanx.data.batches",
    "Callback": "phalanx.train.companions.callbacks",
    "Checkpoints": "phalanx.train.checkpointing",
    "Communicator": "phalanx.comm.base",
    "Dataset": "phalanx.data.split",
    "DistributedSampler": "phalanx.data.sampler",
    "Epoch": "phalanx.train.epoch",
    "FlatParameters": "phalanx.exchange.flat",
    "Loss": "phalanx.strategies.base",
    "Objective": "phalanx.strategies.base",
    "Optimizers": "phalanx.strategies.own_step",
    "Outcome": "phalanx.strategies.base",
    "OwnStep": "phalanx.strategies.own_step",
    "PartGradients": "phalanx.strategies.building_blocks.part_gradients",
    "PhalanxError": "phalanx.errors",
    "ProgressBar": "phalanx.cli.output.progress",
    "RankFailedError": "phalanx.errors",
    "Share": "phalanx.state",
    "Slice": "phalanx.state",
    "Split": "phalanx.data.split",
    "State": "phalanx.state",
    "StopOnSignal": "phalanx.train.interruption.stop_on_signal",
    "Strategy": "phalanx.strategies.base",
    "Task": "phalanx.strategies.base",
    "TrainedModel": "phalanx.inference.loading",
    "Trainer": "phalanx.train.trainer",
    "UsageError": "phalanx.errors",
    "WholeModel": "phalanx.strategies.building_blocks.whole_model",
    "Worker": "phalanx.strategies.base",
    "average_buffers": "phalanx.strategies.building_blocks.whole_model",
    "broadcast_model": "phalanx.strategies.building_blocks.whole_model",
    "gather": "phalanx.state",
    "in_parts": "phalanx.models.in_parts",
    "launch": "phalanx.comm.calls.launch",
    "load": "phalanx.inference.loading",
    "load_whole": "phalanx.strategies.building_blocks.whole_model",
    "pin_device": "phalanx.train.compute",
    "whole_state": "phalanx.strategies.building_blocks.whole_model",
    "world": "phalanx.comm.script",
}
__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 (names from the table above)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'phalanx' has no attribute '{name}'")
    # Here a script begins to use us: from now on an error of ours that it does not catch is a line.
    import_module("phalanx.comm.launch.failure").explain_uncaught_errors()
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
