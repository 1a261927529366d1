"""The training loop around every peer: batches taken as ours are, nothing else in the timed part.

Peers add up losses alone, where `Trainer.fit` also counts right answers, and they put the losses
of their ranks together once at the end, where it does after every epoch.
"""

import time
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from benchmarks.arguments import parse_arguments, workloads_of
from benchmarks.measurement import Measurement, best_rate
from benchmarks.workloads import SEED, Workload
from phalanx.comm.launch.process import collect_garbage_seldom
from phalanx.data.batches import Batch, batches
from phalanx.data.split import Samples

Step = Callable[[Samples], float]


class Peer(ABC):
    """One rank of another way to train."""

    rank = 0
    ranks = 1

    @abstractmethod
    def prepare(self, workload: Workload) -> Step:
        """The step that trains on this rank's part of a batch, and returns its mean loss."""

    def share(self, batch: Batch) -> Samples:
        """What of a global batch this rank computes with."""
        return batch.part(self.rank, of=self.ranks)

    def average(self, value: float) -> float:
        """Collective. The mean of a value over all ranks."""
        return value

    def close(self) -> None:  # noqa: B027 (a single process has nobody to leave)
        """Collective. Leave the others in an orderly way."""


def run(make_peer: Callable[[Namespace], Peer]) -> None:
    """Measure what the command line asks for."""
    collect_garbage_seldom()
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    peer = make_peer(arguments)
    for workload in workloads_of(arguments):
        measurement = measure(workload, peer)
        if peer.rank == 0:
            measurement.print()
    peer.close()


def measure(workload: Workload, peer: Peer) -> Measurement:
    """Collective. Train with a peer."""
    started = time.perf_counter()
    split = workload.make_data()
    step = peer.prepare(workload)
    seconds = []
    loss = 0.0
    for epoch in range(workload.epochs):
        loss, epoch_started = 0.0, time.perf_counter()
        for batch in batches(split, batch_size=workload.batch_size, seed=SEED, epoch=epoch):
            loss += step(peer.share(batch))
        seconds.append(time.perf_counter() - epoch_started)
    return Measurement(
        workload=workload.name,
        samples_per_second=best_rate(workload, seconds),
        loss=peer.average(loss / workload.steps),
        seconds=time.perf_counter() - started,
    )


def build(workload: Workload, *, tuned: bool) -> tuple[nn.Module, Optimizer]:
    """The model and its optimizer; tuned, in the memory format and with the kernel that suit."""
    model = workload.make_model()
    if tuned and workload.has_images:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model, workload.make_optimizer(model, fused=tuned)


def make_step(
    workload: Workload,
    model: nn.Module,
    optimizer: Optimizer,
    *,
    channels_last: bool = False,
    backward: Callable[[Tensor], Any] = torch.Tensor.backward,
) -> Step:
    """Torch's usual training step."""
    channels_last = channels_last and workload.has_images

    def step(samples: Samples) -> float:
        inputs = samples.inputs
        if channels_last:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), samples.targets)
        backward(loss)
        optimizer.step()
        return loss.item()

    return step
