"""Torch's DistributedDataParallel over gloo, started by torchrun, or by mpiexec between hosts."""

import os
from argparse import Namespace

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from benchmarks.binding import bind_to_core
from benchmarks.gloo import end_without_teardown
from benchmarks.peers.loop import Peer, Step, build, make_step, run
from benchmarks.workloads import Workload


class DDP(Peer):
    """Tuned: channels-last, a fused optimizer, no copies out of the buckets, a graph kept."""

    def __init__(self, arguments: Namespace) -> None:
        self._tuned: bool = arguments.tuned
        self._hook: str | None = arguments.hook
        self._matrix_rank: int = arguments.rank
        if "OMPI_COMM_WORLD_RANK" in os.environ:
            os.environ["RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]
            os.environ["WORLD_SIZE"] = os.environ["OMPI_COMM_WORLD_SIZE"]
        if arguments.bound:
            bind_to_core(arguments.threads)
        dist.init_process_group("gloo")
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()

    def prepare(self, workload: Workload) -> Step:
        model, optimizer = build(workload, tuned=self._tuned)
        parallel = DistributedDataParallel(
            model,
            gradient_as_bucket_view=self._tuned,
            static_graph=self._tuned,
            # Over gloo the second sums of several buckets may begin in another order on each rank.
            bucket_cap_mb=1024 if self._hook == "powersgd" else None,
        )
        if self._hook == "fp16":
            parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif self._hook == "powersgd":
            state = powerSGD_hook.PowerSGDState(
                process_group=None,
                matrix_approximation_rank=self._matrix_rank,
                start_powerSGD_iter=2,  # as soon as it may, and so in the warm-up
            )
            parallel.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return make_step(workload, parallel, optimizer, channels_last=self._tuned)

    def average(self, value: float) -> float:
        total = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(total)
        return total.item() / self.ranks

    def close(self) -> None:
        end_without_teardown()


if __name__ == "__main__":
    run(DDP)
