"""What it costs to be able to lose ranks: epochs with and without copies of the state in memory, in
turn, in the same two processes, started with and without MPI's fault tolerance.

`python -m benchmarks.questions.survival_cost [WORKLOAD …]` starts the ranks and prints the best
epoch of each.
"""

import os
import sys
from dataclasses import replace

import torch
from torch.optim import Adam

from benchmarks.launchers import Command, run
from benchmarks.workloads import WORKLOADS, Workload
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.launch.fault_tolerance import can_survive
from phalanx.comm.launch.mpiexec import mpiexec_command
from phalanx.train.compute import prepare_process
from phalanx.train.survival import Survival
from phalanx.train.trainer import Trainer

_RANKS, _ROUNDS, _TURNS = 2, 6, 2
#: The end of an epoch has a copy of its own, so one must not be too short.
_STEPS = 12


def make_trainer(comm: Communicator, workload: Workload) -> Trainer:
    model = workload.make_model()
    optimizer = Adam(model.parameters(), fused=True)
    return Trainer(
        model, optimizer, loss=workload.make_loss(), strategy="central", comm=comm, seed=1
    )


def train(workload: Workload) -> None:
    """Collective. Train two models in turn; rank 0 prints the best samples per second of each."""
    comm = world()
    prepare_process(comm, 1)
    data = workload.make_data()
    trainers = {"plain": make_trainer(comm, workload), "copies": make_trainer(comm, workload)}
    trainers["copies"].survival = Survival()
    trainers["copies"].survival.begin(comm)
    best = dict.fromkeys(trainers, 0.0)
    for _ in range(_ROUNDS):
        for name, trainer in trainers.items():
            (epoch,) = trainer.fit(data, epochs=1, batch_size=workload.batch_size)
            best[name] = max(best[name], epoch.samples_per_second)
    if comm.rank == 0:
        how = "with" if can_survive() else "without"
        rates = ", ".join(f"{name} {rate:,.0f} samples/s" for name, rate in best.items())
        cost = best["plain"] / best["copies"] - 1
        print(f"{workload.name:10} {how:7} fault tolerance: {rates}; copies take {cost:+.1%}")


def command(name: str, *, survive: bool) -> Command:
    words, environment = mpiexec_command(_RANKS, survive=survive)
    changed = {key: value for key, value in environment.items() if os.environ.get(key) != value}
    module = "benchmarks.questions.survival_cost"
    return Command((*words, sys.executable, "-m", module, "rank", name), changed)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "rank" in sys.argv:
        workload = WORKLOADS[sys.argv[-1]]
        train(replace(workload, steps=max(workload.steps, _STEPS)))
    else:
        for name in sys.argv[1:] or ("simplecnn", "vgg11"):
            for _ in range(_TURNS):
                for survive in (False, True):
                    print("\n".join(run(command(name, survive=survive), timeout=600)), flush=True)
