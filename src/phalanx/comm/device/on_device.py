"""The communicator for a device: which one moves its tensors best."""

import logging
from functools import lru_cache

import torch

from phalanx.comm.base import Communicator
from phalanx.comm.device.gpus import gpu_of, sharing

log = logging.getLogger("phalanx.comm")


def on_device(comm: Communicator, device: torch.device) -> Communicator:
    """Collective. The ranks of a communicator, for tensors in CPU memory and on a device.

    For CPUs it is the communicator itself. GPUs talk by NCCL if every rank has one of its own,
    which NCCL insists on, and through host memory if not.
    """
    if device.type == "cpu" or comm.size == 1:
        return comm
    from phalanx.comm.device.staged import StagedCommunicator

    staged = StagedCommunicator(comm)
    obstacle = _obstacle(comm, device)
    if comm.rank == 0:
        log.info(
            "tensors on GPUs go %s", f"through host memory: {obstacle}" if obstacle else "by NCCL"
        )
    if obstacle is not None:
        return staged
    from phalanx.comm.device.distributed import DistributedCommunicator

    return DistributedCommunicator(staged, device)


@lru_cache(maxsize=4)
def kept_on_device(comm: Communicator, device: torch.device) -> Communicator:
    """Collective, when first asked for. The same, made once for a communicator that nobody frees:
    ranks need not find each other again for every Trainer."""
    return on_device(comm, device)


def _obstacle(comm: Communicator, device: torch.device) -> str | None:
    """Collective. Why NCCL cannot be had, if so: the same answer on all ranks."""
    everyone = comm.allgather_objects(gpu_of(device) if _has_nccl(device) else None)
    gpus = [gpu for gpu in everyone if gpu is not None]
    if len(gpus) < comm.size:
        return f"torch on rank {everyone.index(None)} has no NCCL"
    return sharing(gpus)


def _has_nccl(device: torch.device) -> bool:
    # A torch can be built without any of this.
    distributed = torch.distributed
    return device.type == "cuda" and distributed.is_available() and distributed.is_nccl_available()
