"""Torch's own layers split over ranks: DTensor's `parallelize_module` over gloo, by torchrun."""

from argparse import Namespace
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from torch.optim import SGD

from benchmarks.binding import bind_to_core
from benchmarks.gloo import end_without_teardown
from benchmarks.peers.loop import Peer, Step, make_step, run
from benchmarks.workloads import Workload
from phalanx.data.batches import Batch
from phalanx.data.split import Samples

#: By model: pairs of layers, the first by its outputs and the second by its inputs, so that ranks
#: meet once a pair; what has no partner gathers its outputs.
PLANS: dict[str, dict[str, ParallelStyle]] = {
    "mlp": {
        "1": ColwiseParallel(),
        "3": RowwiseParallel(),
        "5": ColwiseParallel(),
        "7": RowwiseParallel(),
    },
    "transformer": {
        "block*.attention.1": ColwiseParallel(),
        "block*.attention.3": RowwiseParallel(),
        "block*.mlp.1": ColwiseParallel(),
        "block*.mlp.3": RowwiseParallel(),
        "head": ColwiseParallel(output_layouts=Replicate()),
    },
}


class DTensors(Peer):
    """Tuned: the optimizer takes all parameters at a time, by `foreach` those that are DTensors,
    which SGD's fused kernel refuses, and by that kernel the others."""

    def __init__(self, arguments: Namespace) -> None:
        self._tuned: bool = arguments.tuned
        if arguments.bound:
            bind_to_core(arguments.threads)
        dist.init_process_group("gloo")
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()
        self._mesh = init_device_mesh("cpu", (self.ranks,))

    def prepare(self, workload: Workload) -> Step:
        model = parallelize_module(workload.make_model(), self._mesh, PLANS[workload.model])
        return make_step(workload, model, self._optimizer(workload, model))

    def _optimizer(self, workload: Workload, model: nn.Module) -> SGD:
        if not self._tuned:
            return workload.make_optimizer(model)
        split = [one for one in model.parameters() if isinstance(one, DTensor)]
        whole = [one for one in model.parameters() if not isinstance(one, DTensor)]
        groups: list[dict[str, Any]] = [
            {"params": split, "foreach": True},
            {"params": whole, "fused": True},
        ]
        return SGD(
            [group for group in groups if group["params"]],
            lr=workload.learning_rate,
            momentum=0.9,
        )

    def share(self, batch: Batch) -> Samples:
        """All of it: every rank computes the same samples."""
        return batch.part(0, of=1)

    def close(self) -> None:
        end_without_teardown()


if __name__ == "__main__":
    run(DTensors)
