"""What it costs to look: epochs with and without a profile, in turn, in the same two processes.

`python -m benchmarks.questions.profile_overhead` starts the ranks and prints the best epoch of
each.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.launchers import mpiexec, run
from benchmarks.workloads import WORKLOADS
from phalanx import clock
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.train.compute import prepare_process
from phalanx.train.profiling.profile import Profile
from phalanx.train.profiling.trace import TraceFile
from phalanx.train.trainer import Trainer

_RANKS, _ROUNDS = 2, 40
_WORKLOAD = WORKLOADS["simplecnn"]


def make_trainer(comm: Communicator) -> Trainer:
    model = _WORKLOAD.make_model()
    optimizer = _WORKLOAD.make_optimizer(model, fused=True)
    return Trainer(
        model, optimizer, loss=_WORKLOAD.make_loss(), strategy="allreduce", comm=comm, seed=1
    )


def train() -> None:
    """Collective. Train two models in turn; rank 0 prints the best samples per second of each."""
    comm = world()
    prepare_process(comm, 1)
    data = _WORKLOAD.make_data()
    profile = Profile(comm)
    trace = TraceFile(comm, Path(tempfile.gettempdir()) / f"phalanx-trace-{os.getuid()}.json")
    trainers = {"plain": make_trainer(comm), "profile": make_trainer(profile.comm)}
    best = dict.fromkeys(trainers, 0.0)
    for _ in range(_ROUNDS):
        for name, trainer in trainers.items():
            clock.stop()
            if name == "profile":
                clock.start(trace=trace.add)
            (epoch,) = trainer.fit(data, epochs=1, batch_size=_WORKLOAD.batch_size)
            best[name] = max(best[name], epoch.samples_per_second)
    trace.finish()
    if comm.rank == 0:
        trace.path.unlink()
        for name, rate in best.items():
            print(f"{name:8} {rate:8,.0f} samples/s")
        cost = best["plain"] / best["profile"] - 1
        print(f"a profile with a trace takes {cost:+.1%} of the time")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "rank" in sys.argv:
        train()
    else:
        command = mpiexec(_RANKS, "benchmarks.questions.profile_overhead").with_arguments("rank")
        print("\n".join(run(command, timeout=300)))
