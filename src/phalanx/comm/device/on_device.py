"""The communicator for a device: which one moves its tensors best."""

import torch

from phalanx.comm.base import Communicator


def on_device(comm: Communicator, device: torch.device) -> Communicator:
    """Collective. The ranks of a communicator, for tensors in CPU memory and on a device.

    For CPUs it is the communicator itself. GPUs talk by NCCL if every rank has one of its own,
    which NCCL insists on, and through host memory if not.
    """
    if device.type == "cpu" or comm.size == 1:
        return comm
    from phalanx.comm.device.staged import StagedCommunicator

    staged = StagedCommunicator(comm)
    if not all(comm.allgather_objects(_one_each(comm) and _has_nccl(device))):
        return staged
    from phalanx.comm.device.distributed import DistributedCommunicator

    return DistributedCommunicator(staged, device)


def _one_each(comm: Communicator) -> bool:
    """Collective. Whether this host has a GPU for each of its ranks."""
    host = comm.host()
    size = host.size
    host.free()
    return size <= torch.cuda.device_count()


def _has_nccl(device: torch.device) -> bool:
    # A torch can be built without any of this.
    distributed = torch.distributed
    return device.type == "cuda" and distributed.is_available() and distributed.is_nccl_available()
