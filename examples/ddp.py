"""What `examples/demo.py` compares with: torch's DistributedDataParallel, as its users write it.

    torchrun --standalone --nproc-per-node 2 examples/ddp.py

Network, samples, batches and optimizer are those of `phalanx train --model resnet20 --batch-size
128`. It prints the samples a second of its best epoch. `make bench` has a tuned DDP as well.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from phalanx import data, models

BATCH_SIZE = 128


def batches(count: int) -> Sequence[Tensor]:
    """An epoch's batches, in an order that one seed has made on all ranks."""
    return torch.tensor_split(torch.randperm(count), [*range(BATCH_SIZE, count, BATCH_SIZE)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=4)
    epochs: int = parser.parse_args().epochs
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    split = data.load("digits").train
    samples = split.take(torch.arange(len(split)), dtype=torch.float32)
    inputs = (samples.inputs - samples.inputs.mean()) / samples.inputs.std()
    torch.manual_seed(0)
    model = models.build("resnet20", input_shape=split.input_shape, classes=10)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(parallel.parameters(), lr=0.001)
    best = 0.0
    for _ in range(epochs):
        started = time.perf_counter()
        for batch in batches(len(inputs)):
            mine = batch.tensor_split(ranks)[rank]
            optimizer.zero_grad()
            loss = F.cross_entropy(parallel(inputs[mine]), samples.targets[mine])
            torch.autograd.backward(loss)
            optimizer.step()
        dist.barrier()
        best = max(best, len(inputs) / (time.perf_counter() - started))
    if rank == 0:
        print(f"{best:.1f} samples/s")
    dist.barrier()
    sys.stdout.flush()
    time.sleep(0.5)  # until the others have left the barrier, too
    os._exit(0)  # gloo's threads now and then abort a process that cleans up


if __name__ == "__main__":
    main()
