"""What checkpoints cost a training of VGG-11 with Adam: ours. `peers/dcp.py` has torch's own.

Run on every rank: `python -m benchmarks.checkpoints.saving --folder FOLDER --cycles 2`. Rank 0
prints a line of JSON for each checkpoint by itself (the seconds that the training waits, those
until it is on the disk, its bytes), and for each stretch of steps with so many checkpoints (the
seconds of a step). Stretches with and without take turns, in the same processes.
"""

import json
import time
from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import final

import torch
from torch import nn
from torch.optim import Adam

from benchmarks.workloads import SEED, WORKLOADS, Workload
from phalanx.checkpoints import CheckpointWriter
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.launch.process import collect_garbage_seldom
from phalanx.data.batches import batches
from phalanx.train.checkpointing import Checkpoints
from phalanx.train.compute import prepare_process
from phalanx.train.metrics import Meter
from phalanx.train.progress import Silent
from phalanx.train.trainer import Trainer

#: Steps between two checkpoints.
EVERY = (1, 10)
#: Before anything is timed: with the checkpoints that follow, a multiple of all in EVERY.
_WARM_UP, _SAVES = 5, 5
#: Steps that are timed with checkpoints, after one that writes the first; and those without.
_TIMED = 10
_KEPT = 2


class Saver(ABC):
    """One rank of a training that writes checkpoints."""

    rank: int

    @abstractmethod
    def train(self, steps: int, *, every: int) -> list[float]:
        """Collective. The time after each step; all that was begun is on the disk at the end."""

    @abstractmethod
    def save(self) -> tuple[float, float]:
        """Collective. After a step, the seconds until the next could begin, and to the disk."""

    @property
    @abstractmethod
    def newest(self) -> Path:
        """The folder of the last checkpoint."""


def measure(saver: Saver, cycles: int) -> None:
    """Collective. Rank 0 prints what it has measured."""
    saver.train(_WARM_UP, every=0)
    for _ in range(_SAVES):
        waits, on_disk = saver.save()
        size = sum(one.stat().st_size for one in saver.newest.rglob("*"))
        _print(saver, waits=waits, on_disk=on_disk, bytes=size)
    for _ in range(cycles):
        for every in EVERY:
            for steps, between in ((_TIMED - 1, 0), (_TIMED + 1, every)):  # 20: on the beat again
                times = saver.train(steps, every=between)
                _print(saver, every=between, seconds=(times[-1] - times[0]) / (steps - 1))


def _print(saver: Saver, **values: float) -> None:
    if saver.rank == 0:
        print(json.dumps(values), flush=True)


def make_workload(cycles: int, *, quick: bool) -> Workload:
    """A training whose first epoch is long enough for all that is measured."""
    steps = _WARM_UP + _SAVES + cycles * len(EVERY) * 2 * _TIMED
    return replace(WORKLOADS["iris-mlp" if quick else "vgg11"], steps=steps)


def make_optimizer(model: nn.Module) -> Adam:
    return Adam(model.parameters(), lr=1e-4, fused=True)


def parse_arguments() -> Namespace:
    parser = ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True, help="where checkpoints go")
    parser.add_argument("--cycles", type=int, default=1, help="stretches of each kind; 0: none")
    parser.add_argument("--how", default="save", help="of torch's own: save, thread or process")
    parser.add_argument("--sharded", action="store_true", help="of torch's own: FSDP, not DDP")
    parser.add_argument("--quick", action="store_true", help="a small model, to see that it runs")
    return parser.parse_args()


@final
class _Times(Silent):
    def __init__(self) -> None:
        self.times: list[float] = []

    def step(self, samples: int, meter: Meter) -> None:
        self.times.append(time.perf_counter())


@final
class Ours(Saver):
    """`Trainer.fit` with strategy `central`."""

    def __init__(self, comm: Communicator, workload: Workload, folder: Path) -> None:
        self.rank = comm.rank
        self._comm, self._workload, self._folder = comm, workload, folder
        model = workload.make_model()
        self._data = workload.make_data()
        self._trainer = Trainer(
            model,
            make_optimizer(model),
            loss=workload.make_loss(),
            strategy="central",
            comm=comm,
            seed=SEED,
        )

    def train(self, steps: int, *, every: int) -> list[float]:
        timed = _Times()
        self._trainer.fit(
            self._data,
            epochs=1,
            steps=steps,
            batch_size=self._workload.batch_size,
            progress=timed,
            checkpoint=Checkpoints(self._folder, str(every), _KEPT) if every else None,
        )
        return timed.times

    def save(self) -> tuple[float, float]:
        trainer = self._trainer
        step, size = trainer.position.step, self._workload.batch_size
        seen = trainer.position.samples
        data = batches(self._data, batch_size=size, seed=SEED, epoch=0, seen=seen, step=step)
        with CheckpointWriter(self._folder, self._comm, keep=_KEPT) as writer:
            trainer.step(next(iter(data)))
            self._comm.barrier()
            started = time.perf_counter()
            writer.write(trainer.parts(), trainer.position.step)
            begun = time.perf_counter()
            failure = writer.finish()
            done = time.perf_counter()
        if failure is not None:
            raise RuntimeError(failure)
        return begun - started, done - started

    @property
    def newest(self) -> Path:
        return self._folder / f"step-{self._trainer.position.step:09}"


def main() -> None:
    collect_garbage_seldom()
    arguments = parse_arguments()
    torch.set_num_threads(1)
    comm = world()
    prepare_process(comm, 1)
    workload = make_workload(arguments.cycles, quick=arguments.quick)
    measure(Ours(comm, workload, arguments.folder), arguments.cycles)


if __name__ == "__main__":
    main()
