"""Phalanx trains neural networks across MPI ranks: PyTorch computes, MPI communicates."""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phalanx.comm import world as world
    from phalanx.comm.base import Communicator as Communicator
    from phalanx.data.batches import Batch as Batch
    from phalanx.data.sampler import DistributedSampler as DistributedSampler
    from phalanx.data.split import Dataset as Dataset
    from phalanx.data.split import Split as Split
    from phalanx.strategies.base import Loss as Loss
    from phalanx.strategies.base import Outcome as Outcome
    from phalanx.strategies.base import Strategy as Strategy
    from phalanx.strategies.base import Task as Task
    from phalanx.strategies.base import Worker as Worker
    from phalanx.train.trainer import Trainer as Trainer

__version__ = _version("phalanx")

#: Public names and where they live. Loaded on first use: the command line must start without torch.
_HOMES = {
    "Batch": "phalanx.data.batches",
    "Communicator": "phalanx.comm.base",
    "Dataset": "phalanx.data.split",
    "DistributedSampler": "phalanx.data.sampler",
    "Loss": "phalanx.strategies.base",
    "Outcome": "phalanx.strategies.base",
    "Split": "phalanx.data.split",
    "Strategy": "phalanx.strategies.base",
    "Task": "phalanx.strategies.base",
    "Trainer": "phalanx.train.trainer",
    "Worker": "phalanx.strategies.base",
    "world": "phalanx.comm",
}
__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 (names from the table above)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'phalanx' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
