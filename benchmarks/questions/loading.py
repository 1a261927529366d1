"""Does reading samples by workers keep up with torch's DataLoader? 100,000 JPEG files, 2 ranks.

`python -m benchmarks.questions.loading` writes the files into a temporary folder and trains on some
batches of them with 0, 1 and 2 workers a rank: by `Trainer.fit(workers=…)`, and by DDP with a
DataLoader, in turn. It prints the best of each, their ratio, and whether the weights of ours had
the same bits with any number of workers. Starting is not counted: the first batches are not.
On every rank: `python -m benchmarks.questions.loading ours|ddp FOLDER WORKERS BATCHES`.
"""

import hashlib
import json
import os
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import DataLoader, DistributedSampler

from benchmarks.gloo import end_without_teardown
from benchmarks.launchers import mpiexec, run, torchrun
from benchmarks.questions.jpeg_files import JpegFiles, make_files, make_network
from phalanx.comm import world
from phalanx.train.metrics import Meter
from phalanx.train.progress import Silent
from phalanx.train.trainer import Trainer

_RANKS, _BATCH, _UNCOUNTED = 2, 128, 12
_MODULE = "benchmarks.questions.loading"


class Times(Silent):
    """When each step was done."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def step(self, samples: int, meter: Meter) -> None:
        self.ends.append(time.perf_counter())


def train_ours(folder: Path, *, workers: int, batches: int) -> None:
    """Collective. As a user of ours does; rank 0 prints samples a second."""
    comm = world()
    model, times = make_network(), Times()
    with Trainer(model, SGD(model.parameters(), lr=0.01), comm=comm, shards=_RANKS) as trainer:
        trainer.fit(
            JpegFiles(folder),
            epochs=1,
            steps=_UNCOUNTED + batches,
            batch_size=_BATCH,
            workers=workers,
            progress=times,
        )
    if comm.rank == 0:
        parts = [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
        say(times.ends, batches, digest=hashlib.sha256(b"".join(parts)).hexdigest()[:12])


def train_ddp(folder: Path, *, workers: int, batches: int) -> None:
    """Collective. As a user of torch's does."""
    dist.init_process_group("gloo")
    model = DistributedDataParallel(make_network(), gradient_as_bucket_view=True, static_graph=True)
    optimizer, loss = SGD(model.parameters(), lr=0.01), nn.CrossEntropyLoss()
    data = JpegFiles(folder)
    loader = DataLoader(
        data,
        batch_size=_BATCH // _RANKS,
        sampler=DistributedSampler(data),
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    iterator, ends = iter(loader), list[float]()
    for _ in range(_UNCOUNTED + batches):
        images, labels = next(iterator)
        optimizer.zero_grad()
        loss(model(images), labels).backward()
        optimizer.step()
        ends.append(time.perf_counter())
    del iterator, loader  # which ends its processes
    if dist.get_rank() == 0:
        say(ends, batches)
    end_without_teardown()


def say(ends: list[float], batches: int, **more: Any) -> None:
    rate = batches * _BATCH / (ends[-1] - ends[_UNCOUNTED - 1])
    print(json.dumps({"samples_per_second": rate, **more}), flush=True)


def measure(who: str, folder: Path, *, workers: int, batches: int) -> dict[str, Any]:
    """One training in processes of its own."""
    command = torchrun(_RANKS, _MODULE) if who == "ddp" else mpiexec(_RANKS, _MODULE)
    lines = run(command.with_arguments(who, str(folder), str(workers), str(batches)), timeout=600.0)
    found: dict[str, Any] = json.loads([line for line in lines if line.startswith("{")][-1])
    return found


def compare(*, batches: int, rounds: int) -> bool:
    """All of them in turn, and the best of each; whether the bits were the same."""
    best: dict[tuple[str, int], float] = {}
    digests = set()
    with TemporaryDirectory() as name:
        make_files(Path(name))
        for _ in range(rounds):
            for workers in (0, 1, 2):
                for who in ("ours", "ddp"):
                    found = measure(who, Path(name), workers=workers, batches=batches)
                    rate = found["samples_per_second"]
                    best[who, workers] = max(rate, best.get((who, workers), 0.0))
                    digests |= {found["digest"]} if "digest" in found else set()
    load = os.getloadavg()[0]
    print(f"{batches} batches of {_BATCH}, {_RANKS} ranks, best of {rounds}, load {load:.1f}")
    for workers in (0, 1, 2):
        ours, ddp = best["ours", workers], best["ddp", workers]
        print(
            f"{workers} workers a rank: {ours:7.0f} samples/s, "
            f"DDP and DataLoader {ddp:7.0f}, ratio {ours / ddp:.2f}"
        )
    print(f"weights with 0, 1 and 2 workers: {', '.join(sorted(digests))}")
    return len(digests) == 1


def main() -> None:
    torch.set_num_threads(1)
    if len(sys.argv) > 1 and sys.argv[1] in ("ours", "ddp"):
        train = train_ours if sys.argv[1] == "ours" else train_ddp
        train(Path(sys.argv[2]), workers=int(sys.argv[3]), batches=int(sys.argv[4]))
        return
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if not compare(batches=arguments.batches, rounds=arguments.rounds):
        raise SystemExit("the weights depend on the number of workers")


if __name__ == "__main__":
    main()
