"""Torch's DistributedDataParallel over gloo, started by torchrun."""

from argparse import Namespace

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.binding import bind_to_core
from benchmarks.gloo import end_without_teardown
from benchmarks.peers.loop import Peer, Step, build, make_step, run
from benchmarks.workloads import Workload


class DDP(Peer):
    """Tuned: channels-last, a fused optimizer, no copies out of the buckets, a graph kept."""

    def __init__(self, arguments: Namespace) -> None:
        self._tuned: bool = arguments.tuned
        if arguments.bound:
            bind_to_core(arguments.threads)
        dist.init_process_group("gloo")
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()

    def prepare(self, workload: Workload) -> Step:
        model, optimizer = build(workload, tuned=self._tuned)
        parallel = DistributedDataParallel(
            model, gradient_as_bucket_view=self._tuned, static_graph=self._tuned
        )
        return make_step(workload, parallel, optimizer, channels_last=self._tuned)

    def average(self, value: float) -> float:
        total = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(total)
        return total.item() / self.ranks

    def close(self) -> None:
        end_without_teardown()


if __name__ == "__main__":
    run(DDP)
