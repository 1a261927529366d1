"""Hugging Face Accelerate over gloo, started by torchrun."""

from argparse import Namespace
from importlib import import_module
from typing import Any

import torch

from benchmarks.peers.loop import Peer, Step, build, make_step, run
from benchmarks.workloads import Workload


class Accelerate(Peer):
    def __init__(self, _arguments: Namespace) -> None:
        # By name, because it need not be installed where types are checked.
        self._accelerator: Any = import_module("accelerate").Accelerator(cpu=True)
        self.rank = self._accelerator.process_index
        self.ranks = self._accelerator.num_processes

    def prepare(self, workload: Workload) -> Step:
        model, optimizer = self._accelerator.prepare(*build(workload, tuned=False))
        return make_step(workload, model, optimizer, backward=self._accelerator.backward)

    def average(self, value: float) -> float:
        total: torch.Tensor = self._accelerator.reduce(torch.tensor(value), reduction="mean")
        return total.item()

    def close(self) -> None:
        self._accelerator.wait_for_everyone()
        self._accelerator.end_training()


if __name__ == "__main__":
    run(Accelerate)
