"""torch.distributed's own communicators: opened where ranks meet, and ended in order."""

from typing import Any, final

import torch
import torch.distributed as dist

from phalanx.comm.base import Communicator
from phalanx.comm.device.rendezvous import PATIENCE
from phalanx.comm.hosts import on_one_host


@final
class Group:
    """A process group that ends in order: one that is dropped aborts whatever is under way."""

    def __init__(self, store: Any, comm: Communicator, device: torch.device) -> None:
        """Collective. The ranks of a communicator, which meet at a store."""
        self.group, self._device = _open(store, comm, device), device

    def close(self) -> None:
        """Wait for what is under way, and end."""
        if self.group is not None:
            if self._device.type == "cuda":
                # A call's `wait` is the stream's, not the host's.
                torch.cuda.synchronize(self._device)
            self.group.shutdown()
            self.group = None


def _open(store: Any, comm: Communicator, device: torch.device) -> Any:
    """Collective. A process group of our own: torch's global one is the user's."""
    if device.type == "cuda":
        nccl: Any = dist.ProcessGroupNCCL
        options = nccl.Options()
        options._timeout = PATIENCE
        return nccl(store, comm.rank, comm.size, options)
    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()
    options._timeout = PATIENCE
    here = on_one_host(comm)
    options._devices = [
        gloo.create_device(hostname="127.0.0.1") if here else gloo.create_default_device()
    ]
    return gloo(store, comm.rank, comm.size, options)
