"""Torch's own checkpoints, `torch.distributed.checkpoint`, of a training over gloo by torchrun.

As a careful user sets it: plans kept between checkpoints, the copy in memory reused, files synced,
a group of its own for its messages, the oldest of two checkpoints written over. DDP's replicas are
written once, each rank its half; with `--sharded` each rank of FSDP has its half alone.
"""

import time
import warnings
from concurrent.futures import Future
from pathlib import Path
from typing import Any, final

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, async_save, save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from benchmarks.checkpoints.saving import (
    Saver,
    make_optimizer,
    make_workload,
    measure,
    parse_arguments,
)
from benchmarks.gloo import end_without_teardown
from benchmarks.peers.loop import make_step
from benchmarks.workloads import SEED, Workload
from phalanx.comm.launch.process import collect_garbage_seldom
from phalanx.data.batches import batches


@final
class TorchSaver(Saver):
    """Trains as `peers/ddp.py` does when it is tuned; `how` is save, thread or process."""

    def __init__(self, workload: Workload, folder: Path, *, how: str, sharded: bool) -> None:
        dist.init_process_group("gloo")
        self.rank = dist.get_rank()
        self._folder, self._how, self._count = folder, how, 0
        self._group = dist.new_group(backend="gloo")
        self._stager = DefaultStager(StagingOptions(False, how == "process", False, False))
        self._model = workload.make_model()
        parallel = self._parallel(sharded)
        self._optimizer = make_optimizer(parallel)
        self._step = make_step(workload, parallel, self._optimizer, channels_last=not sharded)
        first = next(
            iter(batches(workload.make_data(), batch_size=workload.batch_size, seed=SEED, epoch=0))
        )
        self._part = first.part(self.rank, of=dist.get_world_size())

    def _parallel(self, sharded: bool) -> nn.Module:
        if sharded:
            mesh = init_device_mesh("cpu", (dist.get_world_size(),))
            fully_shard(self._model, mesh=mesh)
            return self._model
        self._model = self._model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return DistributedDataParallel(self._model, gradient_as_bucket_view=True, static_graph=True)

    def train(self, steps: int, *, every: int) -> list[float]:
        times: list[float] = []
        before: Future[Any] | None = None
        for number in range(steps):
            self._step(self._part)
            times.append(time.perf_counter())
            if every and number % every == 0:
                if before is not None:
                    before.result()
                before = self._begin()
        if before is not None:
            before.result()
        return times

    def save(self) -> tuple[float, float]:
        self._step(self._part)
        dist.barrier()
        started = time.perf_counter()
        under_way = self._begin()
        begun = time.perf_counter()
        if under_way is not None:
            under_way.result()
        dist.barrier()  # on all ranks' disks
        return begun - started, time.perf_counter() - started

    def _begin(self) -> "Future[Any] | None":
        """Begin a checkpoint; one that is not in the background is done when this returns."""
        self._count += 1
        state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()}
        writer = FileSystemWriter(self.newest, thread_count=1)
        planner = DefaultSavePlanner(enable_plan_caching=True)
        if self._how == "save":
            save(state, storage_writer=writer, planner=planner, process_group=self._group)
            return None
        begun = async_save(
            state,
            storage_writer=writer,
            planner=planner,
            process_group=self._group,
            async_stager=self._stager,
            async_checkpointer_type=AsyncCheckpointerType(self._how),
        )
        return begun if isinstance(begun, Future) else begun.upload_completion

    @property
    def newest(self) -> Path:
        return self._folder / f"checkpoint-{self._count % 2}"


def main() -> None:
    collect_garbage_seldom()
    warnings.filterwarnings("ignore", message="Detected an existing checkpoint")
    arguments = parse_arguments()
    torch.set_num_threads(1)
    saver = TorchSaver(
        make_workload(arguments.cycles, quick=arguments.quick),
        arguments.folder,
        how=arguments.how,
        sharded=arguments.sharded,
    )
    measure(saver, arguments.cycles)
    end_without_teardown()


if __name__ == "__main__":
    main()
