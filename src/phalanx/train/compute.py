"""How torch computes in this process: its threads, its allocator, the layout of its images."""

import logging
import math
import os
import socket
from typing import Literal, get_args

import torch
from torch import nn

from phalanx.comm.base import Communicator
from phalanx.comm.device.gpus import gpu_of, own_number, sharing
from phalanx.comm.launch.process import keep_freed_memory, memory_share, threads_per_rank
from phalanx.comm.script import world
from phalanx.errors import UsageError
from phalanx.models.in_parts import device_of, dtype_of
from phalanx.models.table import layer_rows
from phalanx.wording import unknown

log = logging.getLogger("phalanx.train")

MemoryFormat = Literal["auto", "channels-last", "preserve"]

#: Multiplications of a rank's forward pass below which its threads would wait for each other longer
#: than they compute: a few milliseconds' worth, and on a busy machine each wait costs as much.
_WORTH_THREADS = 10_000_000


def prepare_process(comm: Communicator, threads: int | None) -> None:
    """Collective. Give this rank its allocator settings and its share of the host's cores."""
    keep_freed_memory()
    host = comm.host()
    count = threads_per_rank(threads, host.allgather_objects)
    host.free()
    if count is not None:
        torch.set_num_threads(count)


def spare_threads(model: nn.Module, input_shape: tuple[int, ...], *, samples: int) -> None:
    """Compute in one thread if so many samples a step keep no more busy; OMP_NUM_THREADS wins.

    The size of the work decides, and not the load of the machine, so that the same training has
    the same threads, and with them the same bits, whenever it is run.
    """
    if "OMP_NUM_THREADS" in os.environ or device_of(model).type != "cpu":
        return
    least = sum(parameter.numel() for parameter in model.parameters())
    if samples * least >= _WORTH_THREADS:
        return
    if samples * _multiplications(model, input_shape) < _WORTH_THREADS:
        torch.set_num_threads(1)


def _multiplications(model: nn.Module, input_shape: tuple[int, ...]) -> float:
    """About as many as a sample's forward pass has: each weight once for every output pixel."""
    found = 0
    for row in layer_rows(model, input_shape, dtype=dtype_of(model)):
        if row.parameters and row.output_shape is None:
            return math.inf  # a layer that tells no shape may compute any amount
        found += row.parameters * math.prod((row.output_shape or ())[1:])
    return found


def choose_device(comm: Communicator, asked: str, *, gpus_will_do: bool = True) -> torch.device:
    """Collective. Where this rank computes: on the CPU, or on one of its host's GPUs, in turn.

    `auto` is a GPU if every rank has one of its own and they will do for what is asked.
    """
    if asked == "cpu":
        return torch.device("cpu")
    found = comm.allgather_objects(torch.cuda.is_available())
    if not all(found) and asked == "auto":
        return torch.device("cpu")
    if not all(found):
        built = torch.version.cuda is not None or torch.version.hip is not None
        cause = "there is none, or no driver for it" if built else "it is built for CPUs alone"
        raise UsageError(
            f"--device cuda: torch {torch.__version__} on rank {found.index(False)} sees no GPU "
            f"({cause}): take --device cpu"
        )
    host = comm.host()
    device = torch.device("cuda", own_number(host.rank, torch.cuda.device_count()))
    host.free()
    if asked == "auto":
        shared = sharing(comm.allgather_objects(gpu_of(device)))
        obstacle = shared if gpus_will_do else "this strategy, or an option of it, is not for GPUs"
        if obstacle is not None:
            if comm.rank == 0:
                log.info("--device auto: %s, so this computes on CPUs", obstacle)
            return torch.device("cpu")
    torch.cuda.set_device(device)
    return device


def pin_device(comm: Communicator | None = None) -> torch.device:
    """Collective. Give this rank a GPU of its own, if there is one for each, and else the CPU.

    Put the model there: `model.to(phalanx.pin_device())`.
    """
    return choose_device(world() if comm is None else comm, "auto")


def compute_deterministically(device: torch.device) -> None:
    """Have a GPU give the same bits every time, which fixed shards promise: on CPUs it does anyway.

    torch refuses operations then that it has no such form of.
    """
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True)


def compute_in_tf32(device: torch.device) -> None:
    """Have a GPU multiply matrices of float32 in fewer bits, and faster; convolutions it does so
    anyway."""
    if device.type != "cuda":
        raise UsageError("--precision tf32 is of GPUs, and this computes on CPUs: leave it out")
    torch.set_float32_matmul_precision("high")


def memory_of_host(comm: Communicator) -> int:
    """Collective. The bytes that all ranks of this host use together.

    Hosts are told apart by their names: a rank that is lost while others make a communicator can
    take them along (Open MPI 5.0), and this comes at the end of a training.
    """
    here = socket.gethostname()
    everyone = comm.allgather_objects((here, memory_share()))
    return sum(share for host, share in everyone if host == here)


def device_memory(comm: Communicator, device: torch.device) -> dict[str, list[int]]:
    """Collective. The most bytes that each rank's tensors had on its GPU at a time; nothing on
    CPUs."""
    if device.type != "cuda":
        return {}
    most = torch.cuda.max_memory_allocated(device)
    return {"device_memory_bytes_by_rank": comm.allgather_objects(most)}


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
