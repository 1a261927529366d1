"""Horovod for torch over MPI: the real one, or with `--ours` the same script over Phalanx."""

from argparse import Namespace
from importlib import import_module
from typing import Any

import torch

from benchmarks.peers.loop import Peer, Step, build, make_step, run
from benchmarks.workloads import Workload


class Horovod(Peer):
    def __init__(self, arguments: Namespace) -> None:
        # By name, because it need not be installed where types are checked.
        name = "phalanx.horovod.torch" if arguments.ours else "horovod.torch"
        self._horovod: Any = import_module(name)
        self._tuned: bool = arguments.tuned
        self._horovod.init()
        self.rank = self._horovod.rank()
        self.ranks = self._horovod.size()

    def prepare(self, workload: Workload) -> Step:
        model, optimizer = build(workload, tuned=self._tuned)
        self._horovod.broadcast_parameters(model.state_dict(), root_rank=0)
        parallel = self._horovod.DistributedOptimizer(
            optimizer, named_parameters=model.named_parameters()
        )
        return make_step(workload, model, parallel, channels_last=self._tuned)

    def average(self, value: float) -> float:
        total: torch.Tensor = self._horovod.allreduce(torch.tensor(value))
        return total.item()


if __name__ == "__main__":
    run(Horovod)
