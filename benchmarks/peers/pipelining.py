"""Torch's own pipeline, `torch.distributed.pipelining` by 1F1B over gloo, started by torchrun."""

from argparse import Namespace
from typing import final

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from benchmarks.binding import bind_to_core
from benchmarks.gloo import end_without_teardown
from benchmarks.peers.loop import Peer, Step, run
from benchmarks.workloads import Workload
from phalanx.data.batches import Batch
from phalanx.data.split import Samples


@final
class Permuted(nn.Module):
    """Images as a view: gloo sends contiguous tensors alone, which channels-last ones are not."""

    def __init__(self, *order: int) -> None:
        super().__init__()
        self._order = order

    def forward(self, images: Tensor) -> Tensor:
        return images.permute(self._order)


class Pipelining(Peer):
    """One stage a rank, cut by hand as torch's documentation shows it.

    Tuned: channels-last and a fused optimizer.
    """

    def __init__(self, arguments: Namespace) -> None:
        self._tuned: bool = arguments.tuned
        if arguments.bound:
            bind_to_core(arguments.threads)
        dist.init_process_group("gloo")
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()

    def prepare(self, workload: Workload) -> Step:
        channels_last = self._tuned and workload.has_images
        layers = self._layers(workload, channels_last=channels_last)
        optimizer = workload.make_optimizer(layers, fused=self._tuned)
        stage = PipelineStage(layers, self.rank, self.ranks, torch.device("cpu"))
        schedule = Schedule1F1B(stage, workload.micro_batches, loss_fn=F.cross_entropy)

        def step(samples: Samples) -> float:
            optimizer.zero_grad()
            if stage.is_first:
                inputs = samples.inputs
                if channels_last:
                    inputs = inputs.contiguous(memory_format=torch.channels_last)
                schedule.step(inputs, return_outputs=False)
                loss = 0.0
            else:
                losses: list[Tensor] = []
                schedule.step(target=samples.targets, losses=losses, return_outputs=False)
                loss = torch.stack(losses).mean().item()
            optimizer.step()
            return loss

        return step

    def _layers(self, workload: Workload, *, channels_last: bool) -> nn.Module:
        """Those of this rank's stage."""
        model = workload.make_model()
        assert isinstance(model, nn.Sequential)
        layers = model[: workload.cut] if self.rank == 0 else model[workload.cut :]
        if not channels_last:
            return layers
        layers = layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.rank == 0:
            return nn.Sequential(layers, Permuted(0, 2, 3, 1))
        return nn.Sequential(Permuted(0, 3, 1, 2), layers)

    def share(self, batch: Batch) -> Samples:
        """All of it: the schedule cuts it in micro-batches."""
        return batch.part(0, of=1)

    def average(self, value: float) -> float:
        """The last stage alone has a loss."""
        total = torch.tensor(value, dtype=torch.float64)
        dist.broadcast(total, src=self.ranks - 1)
        return total.item()

    def close(self) -> None:
        end_without_teardown()


if __name__ == "__main__":
    run(Pipelining)
