"""How torch computes in this process: its threads, its allocator, the layout of its images."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.comm.launch.process import keep_freed_memory, memory_share, threads_per_rank
from phalanx.errors import UsageError
from phalanx.wording import unknown

MemoryFormat = Literal["auto", "channels-last", "preserve"]


def prepare_process(comm: Communicator, threads: int | None) -> None:
    """Collective. Give this rank its allocator settings and its share of the host's cores."""
    keep_freed_memory()
    host = comm.host()
    count = threads_per_rank(threads, host.allgather_objects)
    host.free()
    if count is not None:
        torch.set_num_threads(count)


def choose_device(comm: Communicator, asked: str, *, gpus_will_do: bool = True) -> torch.device:
    """Collective. Where this rank computes: on the CPU, or on one of its host's GPUs, in turn.

    `auto` is a GPU if every rank sees one and they will do for what is asked.
    """
    if asked == "cpu" or (asked == "auto" and not gpus_will_do):
        return torch.device("cpu")
    found = comm.allgather_objects(torch.cuda.is_available())
    if not all(found) and asked == "auto":
        return torch.device("cpu")
    if not all(found):
        built = torch.version.cuda is not None
        cause = "there is none, or no driver for it" if built else "it is built for CPUs alone"
        raise UsageError(
            f"--device cuda: torch {torch.__version__} on rank {found.index(False)} sees no GPU "
            f"({cause}): take --device cpu"
        )
    host = comm.host()
    device = torch.device("cuda", host.rank % torch.cuda.device_count())
    host.free()
    torch.cuda.set_device(device)
    return device


def device_of(model: nn.Module) -> torch.device:
    """Where a model is: where its first parameter is."""
    first: Tensor | None = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def memory_of_host(comm: Communicator) -> int:
    """Collective. The bytes that all ranks of this host use together."""
    host = comm.host()
    shares = host.allgather_objects(memory_share())
    host.free()
    return sum(shares)


def lay_out(model: nn.Module, memory_format: MemoryFormat) -> None:
    """Store images as the format says; `auto` is channels-last for models with convolutions.

    On CPUs channels-last was as fast or faster for every such model measured, and the choice
    depends on the model alone: a choice by stopwatch would change the last bits from run to run.
    """
    if memory_format not in get_args(MemoryFormat):
        raise unknown("memory format", memory_format, known=get_args(MemoryFormat))
    has_convolution = any(isinstance(module, nn.Conv2d) for module in model.modules())
    if memory_format == "channels-last" or (memory_format == "auto" and has_convolution):
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
