"""Phalanx trains neural networks across MPI ranks: PyTorch computes, MPI communicates.

`Trainer` trains; `Split` and `Dataset` hold samples. `Strategy`, `Worker`, `Task`, `Batch` and
`Outcome` are what a strategy of one's own is written against, and `FlatParameters`,
`PartGradients`, `WholeModel`, `broadcast_model`, `average_buffers`, `whole_state` and `load_whole`
what the built-in ones are made of (examples/own_strategy.py). A `State` is where a training stands:
whole, or in `Slice`s and `Share`s that `gather` puts together.
"""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phalanx.comm.base import Communicator as Communicator
    from phalanx.comm.script import world as world
    from phalanx.data.batches import Batch as Batch
    from phalanx.data.sampler import DistributedSampler as DistributedSampler
    from phalanx.data.split import Dataset as Dataset
    from phalanx.data.split import Split as Split
    from phalanx.errors import PhalanxError as PhalanxError
    from phalanx.errors import UsageError as UsageError
    from phalanx.exchange.flat import FlatParameters as FlatParameters
    from phalanx.state import Share as Share
    from phalanx.state import Slice as Slice
    from phalanx.state import State as State
    from phalanx.state import gather as gather
    from phalanx.strategies.base import Loss as Loss
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
    from phalanx.train.trainer import Trainer as Trainer

__version__ = _version("phalanx")

#: Public names and where they live. Loaded on first use: the command line must start without torch.
_HOMES = {
    "Batch": "phalanx.data.batches",
    "Communicator": "phalanx.comm.base",
    "Dataset": "phalanx.data.split",
    "DistributedSampler": "phalanx.data.sampler",
    "FlatParameters": "phalanx.exchange.flat",
    "Loss": "phalanx.strategies.base",
    "Outcome": "phalanx.strategies.base",
    "PartGradients": "phalanx.strategies.building_blocks.part_gradients",
    "PhalanxError": "phalanx.errors",
    "Share": "phalanx.state",
    "Slice": "phalanx.state",
    "Split": "phalanx.data.split",
    "State": "phalanx.state",
    "Strategy": "phalanx.strategies.base",
    "Task": "phalanx.strategies.base",
    "Trainer": "phalanx.train.trainer",
    "UsageError": "phalanx.errors",
    "WholeModel": "phalanx.strategies.building_blocks.whole_model",
    "Worker": "phalanx.strategies.base",
    "average_buffers": "phalanx.strategies.building_blocks.whole_model",
    "broadcast_model": "phalanx.strategies.building_blocks.whole_model",
    "gather": "phalanx.state",
    "load_whole": "phalanx.strategies.building_blocks.whole_model",
    "whole_state": "phalanx.strategies.building_blocks.whole_model",
    "world": "phalanx.comm.script",
}
__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 (names from the table above)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'phalanx' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
